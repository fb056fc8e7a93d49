import { invalidHeader } from "../wire/header-values.ts";
import { WRITE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { unverifiedPropertiesOf } from "./blob-properties.ts";
import type { BlobProperties } from "./blob-record.ts";
import { leaseAfterWrite } from "./lease.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";
import { checkChange, type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface SetBlobPropertiesInput extends WriteTerms {
  readonly name: BlobName;
  readonly properties: BlobProperties;
}

/**
 * Set Blob Properties: replaces the six properties together. One that is missing or empty is cleared. Facts of a
 * copy are dropped.
 */
export const setBlobProperties: BlobOperation<SetBlobPropertiesInput, number> = {
  name: "SetBlobProperties",
  route: { method: "PUT", resource: "blob", comp: "properties" },
  access: WRITE_ACCESS,

  decode(request) {
    refuseUnsupported(request);
    const length = request.header("x-ms-blob-content-length");
    if (length !== undefined) throw invalidHeader("x-ms-blob-content-length", length);
    return {
      name: blobNameOf(request),
      properties: unverifiedPropertiesOf(request),
      ...writeTermsOf(request),
    };
  },

  run({ blobs }, { name, properties, ...terms }) {
    return blobs.change(name, ({ record }, now) => {
      const blob = checkChange(record.blob, terms);
      const modified = nextModified(now, blob.modified);
      const changed = {
        ...blob,
        modified,
        properties,
        lease: leaseAfterWrite(blob.lease, terms.caller.arrivedAt),
        copy: undefined,
      };
      return { record: { ...record, blob: changed }, result: modified };
    });
  },

  encode: (modified) => ({ status: 200, headers: validatorHeaders(modified) }),
};
