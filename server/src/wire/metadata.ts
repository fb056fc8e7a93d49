import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { RequestHead } from "./operation.ts";

/**
 * User-defined names and values of a queue, a container or a blob, in the order and case they were sent.
 * Names are compared without case.
 * Source: "Setting and retrieving properties and metadata".
 */
export type Metadata = readonly (readonly [name: string, value: string])[];

const PREFIX = "x-ms-meta-";
/** Text that a header can return. */
const VALUE = /^[\t\x20-\x7e]*$/;
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * The `x-ms-meta-*` headers of a request.
 * @throws ServiceError EmptyMetadataKey, InvalidMetadata or MetadataTooLarge.
 */
export function readMetadata({ rawHeaders }: Pick<RequestHead, "rawHeaders">): Metadata {
  const metadata: [string, string][] = [];
  const names = new Set<string>();
  let bytes = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!;
    if (!header.toLowerCase().startsWith(PREFIX)) continue;
    const name = header.slice(PREFIX.length);
    const sent = rawHeaders[i + 1]!;
    if (name === "") throw new ServiceError("EmptyMetadataKey");
    // Before trimming, which would also remove no-break spaces.
    if (!IDENTIFIER.test(name) || !VALUE.test(sent)) {
      throw new ServiceError("InvalidMetadata");
    }
    const value = sent.trim();
    if (names.has(name.toLowerCase())) throw new ServiceError("InvalidMetadata");
    names.add(name.toLowerCase());
    bytes += name.length + value.length;
    metadata.push([name, value]);
  }
  if (bytes > LIMITS.metadataBytesMax) throw new ServiceError("MetadataTooLarge");
  return metadata;
}

/** The headers, alternating names and values, that return the metadata. */
export function metadataHeaders(metadata: Metadata): string[] {
  return metadata.flatMap(([name, value]) => [PREFIX + name, value]);
}

/** Whether both are equal: names in any case and order, values exactly. */
export function sameMetadata(a: Metadata, b: Metadata): boolean {
  if (a.length !== b.length) return false;
  const values = new Map(b.map(([name, value]) => [name.toLowerCase(), value]));
  return a.every(([name, value]) => values.get(name.toLowerCase()) === value);
}
