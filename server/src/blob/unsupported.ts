import { ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead } from "../operation.ts";

/*
 * What the Blob service of the cloud has and this one has not. Asked for, it is refused with 501,
 * which no client tries again: never silently left out.
 */

/** By resource, the `comp` values that nothing listens to. */
const UNSUPPORTED_COMPS: Readonly<Record<string, readonly string[]>> = {
  account: ["batch", "blobs"],
  service: ["userdelegationkey"],
  container: ["batch", "blobs", "undelete", "rename"],
  blob: [
    "snapshot",
    "undelete",
    "tier",
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

/** Whether no operation listens because the feature is left out. */
export function isUnsupported({ location, query }: RequestHead): boolean {
  if (location.resource === "hierarchy") return true;
  const comp = query.get("comp")?.toLowerCase();
  return comp !== undefined && (UNSUPPORTED_COMPS[location.resource]?.includes(comp) ?? false);
}

/**
 * Headers that ask for something lasting, or for it under a condition: to leave it out silently would be a loss.
 * An encryption algorithm asks for nothing without the key it goes with: clients name one with every write.
 */
const UNSUPPORTED_HEADER =
  /^x-ms-(?:tags|(?:source-)?encryption-(?!algorithm$).*|immutability-policy-.*|legal-hold|expiry-.*|sequence-number-action|access-tier-if-.*)$/i;

/** For operations that write. @throws ServiceError NotImplemented */
export function refuseUnsupported({ rawHeaders }: RequestHead): void {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (UNSUPPORTED_HEADER.test(rawHeaders[i]!)) throw new ServiceError("NotImplemented");
  }
}

/**
 * For operations whose content would come from elsewhere: Put Blob From URL and its like.
 * @throws ServiceError NotImplemented
 */
export function refuseCopySource(head: RequestHead): void {
  if (head.header("x-ms-copy-source") !== undefined) throw new ServiceError("NotImplemented");
}

const OWN_KEYS = ["x-ms-encryption-key", "x-ms-encryption-key-sha256", "x-ms-encryption-scope"];

/**
 * For operations that read: nothing was ever encrypted with a key of the caller's own.
 * @throws ServiceError NotImplemented
 */
export function refuseOwnKeys(head: RequestHead): void {
  if (OWN_KEYS.some((name) => head.header(name) !== undefined)) {
    throw new ServiceError("NotImplemented");
  }
}
