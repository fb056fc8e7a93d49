import { randomUUID } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { WireRequest } from "../operation.ts";
import { type BlobOperation, blobNameOf } from "./blob-operation.ts";
import type { BlobName } from "./blob-store.ts";
import { assertWriteConditions, type Conditions, writeConditions } from "./conditions.ts";
import { actOnLease } from "./lease.ts";
import {
  encodeLease,
  type LeaseOutcome,
  type LeaseRequest,
  leaseRequestOf,
} from "./lease-request.ts";

interface LeaseBlobInput {
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
    name: blobNameOf(request),
    asked: leaseRequestOf(request),
    conditions: writeConditions(request),
  }),

  run({ blobs }, { name, asked, conditions }, { arrivedAt }) {
    const action = withId(asked);
    return blobs.change(name, ({ record }) => {
      const { blob } = record;
      if (blob === undefined) throw new ServiceError("BlobNotFound");
      assertWriteConditions(conditions, blob.modified);
      const lease = actOnLease(blob.lease, action, arrivedAt);
      return {
        record: { ...record, blob: { ...blob, lease } },
        result: { action: asked.action, lease, modified: blob.modified },
      };
    });
  },

  encode: (outcome, { arrivedAt }) => encodeLease(outcome, arrivedAt),
};

/** To break a lease, the right to delete is as good as the right to write. */
export function leaseAccess(resourceType: "o" | "c") {
  const serviceSas = resourceType === "o";
  return (request: WireRequest) => {
    const breaks = request.header("x-ms-lease-action")?.toLowerCase() === "break";
    const letters = breaks ? ["w", "d"] : ["w"];
    return {
      resourceType,
      accountSas: letters,
      serviceSas: serviceSas ? letters : [],
      bearer: "write",
    } as const;
  };
}

/** The id is made up once, however often the change must be tried. */
export function withId(asked: LeaseRequest) {
  return asked.action === "acquire"
    ? { ...asked, proposedId: asked.proposedId ?? randomUUID() }
    : asked;
}
