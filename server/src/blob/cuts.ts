import type { RequestHead } from "../operation.ts";

/*
 * What the Blob service of the cloud has and this one has not. Asked for, it is refused with 501,
 * which no client tries again. Headers of this kind are refused by the operations; see
 * `refuseUnserved`.
 */

const CUT: Readonly<Record<string, readonly string[]>> = {
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
export function isCut({ location, query }: RequestHead): boolean {
  if (location.resource === "hierarchy") return true;
  const comp = query.get("comp")?.toLowerCase();
  return comp !== undefined && (CUT[location.resource]?.includes(comp) ?? false);
}
