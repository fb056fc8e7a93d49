import { ServiceError } from "@rowhouse/protocol/errors";
import { missingHeader } from "../wire/header-values.ts";
import { WRITE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { accessTierOf } from "./blob-properties.ts";
import { checkLeaseForRead } from "./lease.ts";
import { leaseIdOf } from "./lease-request.ts";
import { refuseUnsupported } from "./unsupported.ts";

interface SetBlobTierInput {
  readonly arrivedAt: number;
  readonly name: BlobName;
  readonly tier: string;
  readonly leaseId: string | undefined;
}

/**
 * Set Blob Tier. All tiers are stored alike, but the content of an archived blob cannot be read until another tier
 * is set, which takes effect at once. Changes neither ETag nor Last-Modified, and needs no lease.
 */
export const setBlobTier: BlobOperation<SetBlobTierInput, void> = {
  name: "SetBlobTier",
  route: { method: "PUT", resource: "blob", comp: "tier" },
  access: WRITE_ACCESS,

  decode(request) {
    refuseUnsupported(request);
    const tier = accessTierOf(request);
    if (tier === undefined) throw missingHeader("x-ms-access-tier");
    const { arrivedAt } = request;
    return { arrivedAt, name: blobNameOf(request), tier, leaseId: leaseIdOf(request) };
  },

  run({ blobs, clock }, { arrivedAt, name, tier, leaseId }) {
    return blobs.change(name, ({ record }) => {
      const { blob } = record;
      if (blob === undefined) throw new ServiceError("BlobNotFound");
      if (blob.type !== "BlockBlob") throw new ServiceError("InvalidBlobType");
      checkLeaseForRead(blob.lease, leaseId, arrivedAt, "blob");
      const changed = { ...blob, accessTier: tier, tierChangedAt: clock.now() };
      return { record: { ...record, blob: changed }, result: undefined };
    });
  },

  encode: () => ({ status: 200, headers: [] }),
};
