import { ServiceError } from "@rowhouse/protocol/errors";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { type Conditions, checkWriteConditions, writeConditions } from "./conditions.ts";
import { actOnLease } from "./lease.ts";
import {
  encodeLease,
  type LeaseOutcome,
  type LeaseRequest,
  leaseAccess,
  leaseRequestOf,
  withId,
} from "./lease-request.ts";

interface LeaseBlobInput {
  readonly arrivedAt: number;
  readonly name: BlobName;
  readonly asked: LeaseRequest;
  readonly conditions: Conditions;
}

/** Lease Blob: acquire, renew, change, release, break. Changes neither ETag nor Last-Modified. */
export const leaseBlob: BlobOperation<LeaseBlobInput, LeaseOutcome> = {
  name: "LeaseBlob",
  route: { method: "PUT", resource: "blob", comp: "lease" },
  access: leaseAccess("o"),

  decode: (request) => ({
    arrivedAt: request.arrivedAt,
    name: blobNameOf(request),
    asked: leaseRequestOf(request),
    conditions: writeConditions(request),
  }),

  run({ blobs }, { arrivedAt, name, asked, conditions }) {
    const action = withId(asked);
    return blobs.change(name, ({ record }) => {
      const { blob } = record;
      if (blob === undefined) throw new ServiceError("BlobNotFound");
      checkWriteConditions(conditions, blob.modified);
      const lease = actOnLease(blob.lease, action, arrivedAt);
      return {
        record: { ...record, blob: { ...blob, lease } },
        result: { action: asked.action, lease, modified: blob.modified },
      };
    });
  },

  encode: encodeLease,
};
