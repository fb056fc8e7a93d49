import { ServiceError } from "@rowhouse/protocol/errors";
import type { Caller, WireRequest } from "../wire/operation.ts";
import { checkMayReplace } from "./blob-access.ts";
import type { BlobType, CommittedBlob } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import {
  type Conditions,
  checkCreateConditions,
  checkWriteConditions,
  writeConditions,
} from "./conditions.ts";
import { checkLeaseForWrite } from "./lease.ts";
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
 * @throws ServiceError in the order of the reference: rights, type, conditions, lease.
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
  checkCreateConditions(conditions, blob?.modified);
  checkLeaseForWrite(blob?.lease, leaseId, caller.arrivedAt, "blob");
}

/**
 * Checks a write that changes a blob, and returns the blob.
 * @throws ServiceError in the order of the reference: BlobNotFound, type, conditions, lease.
 */
export function checkChange(
  blob: CommittedBlob | undefined,
  { caller, conditions, leaseId }: WriteTerms,
  type?: BlobType,
): CommittedBlob {
  if (blob === undefined) throw new ServiceError("BlobNotFound");
  if (type !== undefined && blob.type !== type) throw new ServiceError("InvalidBlobType");
  checkWriteConditions(conditions, blob.modified);
  checkLeaseForWrite(blob.lease, leaseId, caller.arrivedAt, "blob");
  return blob;
}
