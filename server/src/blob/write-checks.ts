import { ServiceError } from "@rowhouse/protocol/errors";
import type { WireRequest } from "../wire/operation.ts";
import { checkMayReplace } from "./blob-access.ts";
import type { BlobType, CommittedBlob } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import { type Conditions, checkCreateConditions, checkWriteConditions } from "./conditions.ts";
import { checkLeaseForWrite } from "./lease.ts";

/** What a write request requires of the blob. */
export interface WriteTerms {
  readonly conditions: Conditions;
  readonly leaseId: string | undefined;
}

/**
 * Checks a write that creates a blob or replaces an existing one.
 * @param type required of an existing blob; any if omitted
 * @throws ServiceError in the order of the reference: rights, type, conditions, lease.
 */
export function checkPut(
  state: BlobState,
  { conditions, leaseId }: WriteTerms,
  request: WireRequest,
  type?: BlobType,
): void {
  const { blob } = state.record;
  checkMayReplace(request, state);
  if (type !== undefined && blob !== undefined && blob.type !== type) {
    throw new ServiceError("InvalidBlobType");
  }
  checkCreateConditions(conditions, blob?.modified);
  checkLeaseForWrite(blob?.lease, leaseId, request.arrivedAt, "blob");
}

/**
 * Checks a write that changes a blob, and returns the blob.
 * @throws ServiceError in the order of the reference: BlobNotFound, type, conditions, lease.
 */
export function checkChange(
  blob: CommittedBlob | undefined,
  { conditions, leaseId }: WriteTerms,
  arrivedAt: number,
  type?: BlobType,
): CommittedBlob {
  if (blob === undefined) throw new ServiceError("BlobNotFound");
  if (type !== undefined && blob.type !== type) throw new ServiceError("InvalidBlobType");
  checkWriteConditions(conditions, blob.modified);
  checkLeaseForWrite(blob.lease, leaseId, arrivedAt, "blob");
  return blob;
}
