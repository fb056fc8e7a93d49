import { ServiceError } from "@rowhouse/protocol/errors";
import { md5Header } from "../wire/content-md5.ts";
import { invalidHeader } from "../wire/header-values.ts";
import { metadataHeaders } from "../wire/metadata.ts";
import type { RequestHead, WireRequest } from "../wire/operation.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import type { BlobProperties, CommittedBlob } from "./blob-record.ts";
import { leaseHeaders } from "./lease.ts";
import { lastModifiedOf, printTime, validatorHeaders } from "./validators.ts";

export const DEFAULT_TYPE = "application/octet-stream";

const PROPERTY_HEADERS = {
  contentType: "x-ms-blob-content-type",
  contentEncoding: "x-ms-blob-content-encoding",
  contentLanguage: "x-ms-blob-content-language",
  contentDisposition: "x-ms-blob-content-disposition",
  cacheControl: "x-ms-blob-cache-control",
  contentMd5: "x-ms-blob-content-md5",
} as const satisfies Record<keyof BlobProperties, string>;

/** The properties in `x-ms-blob-*` headers, with an MD5 that the content must have. @throws ServiceError InvalidMd5 */
export function verifiedPropertiesOf(head: RequestHead): BlobProperties {
  const name = PROPERTY_HEADERS.contentMd5;
  return { ...unverifiedPropertiesOf(head), contentMd5: md5Header(head, name) };
}

/**
 * The same with an MD5 that is stored as it is: recorded with one of twelve bytes.
 * @throws ServiceError InvalidMd5 for one that is not base64
 */
export function unverifiedPropertiesOf(head: RequestHead): BlobProperties {
  const contentMd5 = sent(head, PROPERTY_HEADERS.contentMd5);
  if (contentMd5 !== undefined && !BASE64.test(contentMd5)) throw new ServiceError("InvalidMd5");
  return {
    contentType: sent(head, PROPERTY_HEADERS.contentType),
    contentEncoding: sent(head, PROPERTY_HEADERS.contentEncoding),
    contentLanguage: sent(head, PROPERTY_HEADERS.contentLanguage),
    contentDisposition: sent(head, PROPERTY_HEADERS.contentDisposition),
    cacheControl: sent(head, PROPERTY_HEADERS.cacheControl),
    contentMd5,
  };
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** For a body that is the content: its own headers fill in what `x-ms-blob-*` leaves out. */
export function propertiesOfContent(head: RequestHead): BlobProperties {
  const own = verifiedPropertiesOf(head);
  return {
    contentType: own.contentType ?? sent(head, "content-type") ?? DEFAULT_TYPE,
    contentEncoding: own.contentEncoding ?? sent(head, "content-encoding"),
    contentLanguage: own.contentLanguage ?? sent(head, "content-language"),
    contentDisposition: own.contentDisposition,
    cacheControl: own.cacheControl ?? sent(head, "cache-control"),
    contentMd5: own.contentMd5,
  };
}

/** For a body that is a block list, whose own headers describe the list. */
export function propertiesOfList(head: RequestHead): BlobProperties {
  const own = unverifiedPropertiesOf(head);
  return { ...own, contentType: own.contentType ?? DEFAULT_TYPE };
}

/** An empty value counts as absent. */
function sent(head: RequestHead, name: string): string | undefined {
  return head.header(name) || undefined;
}

/** The tier whose blobs cannot be read. */
const ARCHIVE = "Archive";

const TIERS = new Map([
  ["hot", "Hot"],
  ["cool", "Cool"],
  ["cold", "Cold"],
  [ARCHIVE.toLowerCase(), ARCHIVE],
]);

/**
 * The tier to report for a blob.
 * @throws ServiceError InvalidHeaderValue for any other.
 */
export function accessTierOf(head: RequestHead): string | undefined {
  const name = "x-ms-access-tier";
  const text = sent(head, name);
  if (text === undefined) return undefined;
  const tier = TIERS.get(text.toLowerCase());
  if (tier === undefined) throw invalidHeader(name, text);
  return tier;
}

/** @throws ServiceError BlobArchived if the content of a blob of this tier may not be read. */
export function checkNotArchived(accessTier: string | undefined): void {
  if (accessTier === ARCHIVE) throw new ServiceError("BlobArchived");
}

/** The headers of every answer about a blob, with or without its content: alternating names and values. */
export function blobHeaders(blob: CommittedBlob, request: WireRequest): string[] {
  const { copy } = blob;
  const headers = [
    ...validatorHeaders(blob.modified),
    "x-ms-creation-time",
    lastModifiedOf(blob.created),
    "x-ms-blob-type",
    blob.type,
    ...leaseHeaders(blob.lease, request.arrivedAt),
    "x-ms-server-encrypted",
    "true",
    "Accept-Ranges",
    "bytes",
    ...propertyHeaders(blob.properties, request),
    ...metadataHeaders(blob.metadata),
  ];
  if (blob.type === "AppendBlob") {
    headers.push("x-ms-blob-committed-block-count", String(blob.blocks ?? 0));
    if (blob.sealed) headers.push("x-ms-blob-sealed", "true");
  }
  if (copy) {
    headers.push("x-ms-copy-id", copy.id, "x-ms-copy-status", "success");
    headers.push("x-ms-copy-source", copy.source);
    headers.push("x-ms-copy-progress", `${copy.bytes}/${copy.bytes}`);
    headers.push("x-ms-copy-completion-time", printTime(copy.completedAt));
  }
  return headers;
}

/** The five properties that a SAS may override. The MD5 is not among them: it depends on what is sent. */
function propertyHeaders(properties: BlobProperties, request: WireRequest): string[] {
  const overrides = overridesOf(request);
  const headers: string[] = [];
  for (const [name, value] of [
    ["Content-Type", properties.contentType],
    ["Content-Encoding", properties.contentEncoding],
    ["Content-Language", properties.contentLanguage],
    ["Content-Disposition", properties.contentDisposition],
    ["Cache-Control", properties.cacheControl],
  ] as const) {
    const shown = overrides.get(name) ?? value;
    if (shown !== undefined) headers.push(name, shown);
  }
  return headers;
}

const NO_OVERRIDES: ReadonlyMap<string, string> = new Map();

function overridesOf({ identity }: WireRequest): ReadonlyMap<string, string> {
  if (identity.kind !== "service-sas") return NO_OVERRIDES;
  const headers = identity.responseHeaders;
  const overrides = new Map<string, string>();
  for (let i = 0; i < headers.length; i += 2) {
    // Header values are bytes: text beyond ASCII is sent as its UTF-8.
    overrides.set(headers[i]!, Buffer.from(headers[i + 1]!, "utf8").toString("latin1"));
  }
  return overrides;
}

/** @throws ServiceError InvalidQueryParameterValue for a value that no header can hold. */
export function checkOverrides(request: WireRequest): void {
  for (const [name, value] of overridesOf(request)) {
    if (CONTROL.test(value)) {
      throw invalidParameter(name, "", "A header holds no control characters.");
    }
  }
}

const CONTROL = /[^\t\x20-\x7e\x80-\xff]/;
