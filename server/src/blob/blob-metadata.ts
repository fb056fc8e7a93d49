import { type Metadata, metadataHeaders, readMetadata } from "../wire/metadata.ts";
import { READ_ACCESS, WRITE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import type { CommittedBlob } from "./blob-record.ts";
import { type ReadBlobInput, readBlob, readInputOf } from "./get-blob.ts";
import { leaseAfterWrite } from "./lease.ts";
import { refuseOwnKeys, refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";
import { checkChange, type WriteTerms, writeTermsOf } from "./write-checks.ts";

/** Get Blob Metadata. Fails with BlobNotFound (404). */
export const getBlobMetadata: BlobOperation<ReadBlobInput, CommittedBlob> = {
  name: "GetBlobMetadata",
  route: { method: "GET", resource: "blob", comp: "metadata" },
  access: READ_ACCESS,

  decode(request) {
    refuseOwnKeys(request);
    return readInputOf(request);
  },

  run: readBlob,

  encode: ({ modified, metadata }) => ({
    status: 200,
    headers: [...validatorHeaders(modified), ...metadataHeaders(metadata)],
  }),
};

interface SetBlobMetadataInput extends WriteTerms {
  readonly name: BlobName;
  readonly metadata: Metadata;
}

/** Set Blob Metadata: replaces all metadata. Fails with BlobNotFound (404). */
export const setBlobMetadata: BlobOperation<SetBlobMetadataInput, number> = {
  name: "SetBlobMetadata",
  route: { method: "PUT", resource: "blob", comp: "metadata" },
  access: WRITE_ACCESS,

  decode(request) {
    refuseUnsupported(request);
    return {
      name: blobNameOf(request),
      ...writeTermsOf(request),
      metadata: readMetadata(request),
    };
  },

  run({ blobs }, { name, metadata, ...terms }) {
    return blobs.change(name, ({ record }, now) => {
      const blob = checkChange(record.blob, terms);
      const modified = nextModified(now, blob.modified);
      const lease = leaseAfterWrite(blob.lease, terms.caller.arrivedAt);
      return {
        record: { ...record, blob: { ...blob, modified, metadata, lease } },
        result: modified,
      };
    });
  },

  encode: (modified) => ({ status: 200, headers: [...validatorHeaders(modified), ...ENCRYPTED] }),
};
