import { ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead } from "../wire/operation.ts";

/*
 * Features of the cloud's Blob service that are missing here. A request for one is refused with 501, which no
 * client retries; it is never silently ignored.
 */

/** By resource, the `comp` values that no operation serves. */
const UNSUPPORTED_COMPS: Readonly<Record<string, readonly string[]>> = {
  account: ["blobs"],
  service: ["userdelegationkey"],
  container: ["blobs", "undelete", "rename"],
  blob: [
    "snapshot",
    "undelete",
    "tags",
    "page",
    "pagelist",
    "incrementalcopy",
    "query",
    "expiry",
    "immutabilitypolicies",
    "legalhold",
  ],
};

/** Whether no operation serves the request because its feature is missing. */
export function isUnsupported({ location, query }: RequestHead): boolean {
  if (location.resource === "hierarchy") return true;
  const comp = query.get("comp")?.toLowerCase();
  return comp !== undefined && (UNSUPPORTED_COMPS[location.resource]?.includes(comp) ?? false);
}

/**
 * Headers that ask for something lasting, or set a condition on it; ignoring them silently would lose it. An
 * encryption algorithm without its key asks for nothing: clients name one with every write.
 */
const UNSUPPORTED_HEADER =
  /^x-ms-(?:tags|(?:source-)?encryption-(?!algorithm$).*|immutability-policy-.*|legal-hold|expiry-.*|sequence-number-action|access-tier-if-.*)$/i;

/** For write operations. @throws ServiceError NotImplemented */
export function refuseUnsupported({ rawHeaders }: RequestHead): void {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (UNSUPPORTED_HEADER.test(rawHeaders[i]!)) throw new ServiceError("NotImplemented");
  }
}

const OWN_KEYS = ["x-ms-encryption-key", "x-ms-encryption-key-sha256", "x-ms-encryption-scope"];

/**
 * For read operations: nothing here is encrypted with a key of the caller's.
 * @throws ServiceError NotImplemented
 */
export function refuseOwnKeys(head: RequestHead): void {
  if (OWN_KEYS.some((name) => head.header(name) !== undefined)) {
    throw new ServiceError("NotImplemented");
  }
}
