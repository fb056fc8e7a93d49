import { ServiceError } from "@rowhouse/protocol/errors";
import type { Caller, WireRequest } from "../wire/operation.ts";
import { checkMayReplace } from "./blob-access.ts";
import type { BlobType, CommittedBlob } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import {
  type Conditions,
  checkCreateConditions,
  checkWriteConditions,
  withoutAbsence,
  writeConditions,
} from "./conditions.ts";
import { checkLeaseForWrite, isLocked, leaseState } from "./lease.ts";
import { leaseIdOf } from "./lease-request.ts";

/** What a write requires of the blob, and who wants to write. */
export interface WriteTerms {
  readonly caller: Caller;
  readonly conditions: Conditions;
  readonly leaseId: string | undefined;
}

/** @throws ServiceError for malformed conditions or lease ids */
export function writeTermsOf(request: WireRequest): WriteTerms {
  return {
    caller: request,
    leaseId: leaseIdOf(request),
    conditions: writeConditions(request),
  };
}

/**
 * Checks a write that creates a blob or replaces an existing one.
 * @param type required of an existing blob; any if omitted
 * @throws ServiceError in this order: rights, type, lease, conditions.
 */
export function checkPut(
  state: BlobState,
  { caller, conditions, leaseId }: WriteTerms,
  type?: BlobType,
): void {
  const { blob } = state.record;
  checkMayReplace(caller, state);
  if (type !== undefined && blob !== undefined && blob.type !== type) {
    throw new ServiceError("InvalidBlobType");
  }
  const { arrivedAt } = caller;
  checkLeaseForWrite(blob?.lease, leaseId, arrivedAt, "blob");
  // Whoever holds the lease knows that the blob exists: recorded for Put Blob and Put Block List.
  const isHeld = leaseId !== undefined && isLocked(leaseState(blob?.lease, arrivedAt));
  const asked = isHeld ? withoutAbsence(conditions) : conditions;
  checkCreateConditions(asked, blob?.modified);
}

/**
 * Checks a write that changes a blob, and returns the blob.
 * @throws ServiceError in this order: BlobNotFound, type, lease, conditions.
 */
export function checkChange(
  blob: CommittedBlob | undefined,
  { caller, conditions, leaseId }: WriteTerms,
  type?: BlobType,
): CommittedBlob {
  if (blob === undefined) throw new ServiceError("BlobNotFound");
  if (type !== undefined && blob.type !== type) throw new ServiceError("InvalidBlobType");
  checkLeaseForWrite(blob.lease, leaseId, caller.arrivedAt, "blob");
  checkWriteConditions(conditions, blob.modified);
  return blob;
}
