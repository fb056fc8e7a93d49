import { ServiceError } from "@rowhouse/protocol/errors";
import { integerHeader } from "../wire/header-values.ts";
import { WRITE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { leaseAfterWrite } from "./lease.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { validatorHeaders } from "./validators.ts";
import { checkChange, type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface SealInput extends WriteTerms {
  readonly name: BlobName;
  readonly position: number | undefined;
}

/** Append Blob Seal: allows no further appends. Changes neither ETag nor Last-Modified. */
export const sealBlob: BlobOperation<SealInput, number> = {
  name: "AppendBlobSeal",
  route: { method: "PUT", resource: "blob", comp: "seal" },
  access: WRITE_ACCESS,

  decode(request) {
    refuseUnsupported(request);
    return {
      name: blobNameOf(request),
      ...writeTermsOf(request),
      position: integerHeader(request, "x-ms-blob-condition-appendpos"),
    };
  },

  run({ blobs }, { name, position, ...terms }) {
    return blobs.change(name, ({ record }) => {
      const blob = checkChange(record.blob, terms, "AppendBlob");
      if (position !== undefined && position !== blob.size) {
        throw new ServiceError("AppendPositionConditionNotMet");
      }
      const lease = leaseAfterWrite(blob.lease, terms.caller.arrivedAt);
      return {
        record: { ...record, blob: { ...blob, sealed: true, lease } },
        result: blob.modified,
      };
    });
  },

  encode: (modified) => ({
    status: 200,
    headers: [...validatorHeaders(modified), "x-ms-blob-sealed", "true"],
  }),
};
