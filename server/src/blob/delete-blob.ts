import { ServiceError } from "@rowhouse/protocol/errors";
import { invalidHeader } from "../wire/header-values.ts";
import type { RequestHead } from "../wire/operation.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { checkWriteConditions } from "./conditions.ts";
import { releaseAll } from "./content-life/release.ts";
import { checkLeaseForWrite } from "./lease.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface DeleteBlobInput extends WriteTerms {
  readonly name: BlobName;
  readonly onlySnapshots: boolean;
}

/**
 * Delete Blob: deletes content and uncommitted blocks, immediately and for good. Fails with BlobNotFound
 * (404).
 */
export const deleteBlob: BlobOperation<DeleteBlobInput, void> = {
  name: "DeleteBlob",
  route: { method: "DELETE", resource: "blob" },
  access: { resourceType: "o", accountSas: ["d"], serviceSas: ["d"], bearer: "write" },

  decode(request) {
    refuseUnsupported(request);
    return {
      name: blobNameOf(request),
      onlySnapshots: isOnlySnapshots(request),
      ...writeTermsOf(request),
    };
  },

  run(context, { name, onlySnapshots, caller, leaseId, conditions }) {
    return context.blobs.change(name, ({ record }) => {
      const { blob, draft } = record;
      if (blob === undefined && draft === undefined) throw new ServiceError("BlobNotFound");
      checkLeaseForWrite(blob?.lease, leaseId, caller.arrivedAt, "blob");
      checkWriteConditions(conditions, blob?.modified);
      if (onlySnapshots) return { record: "unchanged", result: undefined };
      return { record: undefined, released: releaseAll(context, record), result: undefined };
    });
  },

  encode: () => ({ status: 202, headers: ["x-ms-delete-type-permanent", "true"] }),
};

/** There are no snapshots, so a request to delete only those leaves the blob unchanged. */
function isOnlySnapshots(head: RequestHead): boolean {
  const name = "x-ms-delete-snapshots";
  const text = head.header(name);
  if (text === undefined) return false;
  const which = text.toLowerCase();
  if (which !== "include" && which !== "only") throw invalidHeader(name, text);
  return which === "only";
}
