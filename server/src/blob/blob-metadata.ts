import { ServiceError } from "@rowhouse/protocol/errors";
import { type Metadata, metadataHeaders, readMetadata } from "../http/metadata.ts";
import { READ_ACCESS, WRITE_ACCESS } from "./blob-access.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import type { CommittedBlob } from "./blob-record.ts";
import type { BlobName } from "./blob-store.ts";
import {
  type Conditions,
  checkWriteConditions,
  readConditions,
  writeConditions,
} from "./conditions.ts";
import { readBlob } from "./get-blob.ts";
import { checkLeaseForWrite, leaseAfterWrite } from "./lease.ts";
import { leaseIdOf } from "./lease-request.ts";
import { refuseOwnKeys, refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";

interface BlobInput {
  readonly name: BlobName;
  readonly leaseId: string | undefined;
  readonly conditions: Conditions;
}

/** Get Blob Metadata. Fails with BlobNotFound (404). */
export const getBlobMetadata: BlobOperation<BlobInput, CommittedBlob> = {
  name: "GetBlobMetadata",
  route: { method: "GET", resource: "blob", comp: "metadata" },
  access: READ_ACCESS,

  decode(request) {
    refuseOwnKeys(request);
    return {
      name: blobNameOf(request),
      leaseId: leaseIdOf(request),
      conditions: readConditions(request),
    };
  },

  run: readBlob,

  encode: ({ modified, metadata }) => ({
    status: 200,
    headers: [...validatorHeaders(modified), ...metadataHeaders(metadata)],
  }),
};

/** Set Blob Metadata: replaces all there is. Fails with BlobNotFound (404). */
export const setBlobMetadata: BlobOperation<BlobInput & { metadata: Metadata }, number> = {
  name: "SetBlobMetadata",
  route: { method: "PUT", resource: "blob", comp: "metadata" },
  access: WRITE_ACCESS,

  decode(request) {
    refuseUnsupported(request);
    return {
      name: blobNameOf(request),
      leaseId: leaseIdOf(request),
      conditions: writeConditions(request),
      metadata: readMetadata(request),
    };
  },

  run({ blobs }, { name, leaseId, conditions, metadata }, { arrivedAt }) {
    return blobs.change(name, ({ record }, now) => {
      const { blob } = record;
      if (blob === undefined) throw new ServiceError("BlobNotFound");
      checkWriteConditions(conditions, blob.modified);
      checkLeaseForWrite(blob.lease, leaseId, arrivedAt, "blob");
      const modified = nextModified(now, blob.modified);
      const lease = leaseAfterWrite(blob.lease, arrivedAt);
      return {
        record: { ...record, blob: { ...blob, modified, metadata, lease } },
        result: modified,
      };
    });
  },

  encode: (modified) => ({ status: 200, headers: [...validatorHeaders(modified), ...ENCRYPTED] }),
};
