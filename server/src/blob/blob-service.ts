import { ServiceError } from "@rowhouse/protocol/errors";
import { blobAuth } from "../auth/dialect.ts";
import { namedVersion } from "../auth/named-version.ts";
import { NEWEST_VERSION, versionOf } from "../auth/version.ts";
import { whenReady } from "../awaitable.ts";
import {
  getServiceProperties,
  getServiceStats,
  setServiceProperties,
} from "../catalog/service-operations.ts";
import { storedPolicy } from "../catalog/stored-policy.ts";
import type { ErrorFacts, Service } from "../http/service.ts";
import { encodeStorageError, refuseRoute } from "../http/storage-refusals.ts";
import { withContentMd5 } from "../wire/content-md5.ts";
import type { AnyOperation, RequestHead, WireResponse } from "../wire/operation.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import { BLOB_DOCUMENTS } from "../xml/document-rules.ts";
import { getAccountInformation } from "./account-information.ts";
import { appendBlock } from "./append-block.ts";
import { blobBatch } from "./blob-batch.ts";
import { getBlobMetadata, setBlobMetadata } from "./blob-metadata.ts";
import type { BlobContext } from "./blob-operation.ts";
import { getContainerAcl, setContainerAcl } from "./container-acl.ts";
import {
  getContainerMetadata,
  getContainerProperties,
  setContainerMetadata,
} from "./container-properties.ts";
import { abortCopyBlob, copyBlob } from "./copy-blob.ts";
import { createContainer } from "./create-container.ts";
import { deleteBlob } from "./delete-blob.ts";
import { deleteContainer } from "./delete-container.ts";
import { getBlob, getBlobProperties } from "./get-blob.ts";
import { getBlockList } from "./get-block-list.ts";
import { leaseBlob } from "./lease-blob.ts";
import { leaseContainer } from "./lease-container.ts";
import { listBlobs } from "./list-blobs.ts";
import { listContainers } from "./list-containers.ts";
import { blobMethodOf, locateBlob } from "./locate.ts";
import { putBlob } from "./put-blob.ts";
import { putBlock } from "./put-block.ts";
import { putBlockList } from "./put-block-list.ts";
import { sealBlob } from "./seal-blob.ts";
import { setBlobProperties } from "./set-blob-properties.ts";
import { setBlobTier } from "./set-blob-tier.ts";
import { isUnsupported } from "./unsupported.ts";

/** All operations of the Blob service. Routing, permissions, logs and metrics follow from this list. */
export const BLOB_OPERATIONS: readonly AnyOperation<BlobContext>[] = [
  listContainers,
  getServiceProperties("GetBlobServiceProperties", BLOB_DOCUMENTS),
  setServiceProperties("SetBlobServiceProperties", BLOB_DOCUMENTS),
  getServiceStats("GetBlobServiceStats"),
  getAccountInformation,
  createContainer,
  getContainerProperties,
  getContainerMetadata,
  setContainerMetadata,
  getContainerAcl,
  setContainerAcl,
  leaseContainer,
  deleteContainer,
  listBlobs,
  putBlob,
  getBlob,
  getBlobProperties,
  getBlobMetadata,
  setBlobMetadata,
  setBlobProperties,
  leaseBlob,
  copyBlob,
  abortCopyBlob,
  deleteBlob,
  putBlock,
  putBlockList,
  getBlockList,
  appendBlock,
  sealBlob,
  setBlobTier,
  blobBatch("account"),
  blobBatch("container"),
].map(withContentMd5);

/** The Blob service, ready to be served by a request pipeline. */
export function blobService(context: BlobContext): Service<BlobContext> {
  return {
    name: "blob",
    product: "Rowhouse-Blob/1.0",
    operations: BLOB_OPERATIONS,
    context,
    dialect: blobAuth,
    hasSecondary: false,
    versionForUnauthenticated: NEWEST_VERSION,
    starCredentials: true,
    locate: locateBlob,
    methodOf: blobMethodOf,
    versionOf: (head) => blobVersionOf(head, context),
    refuse,
    encodeError: encodeBlobError,
    corsRules: (account, now) => context.properties.corsRules(account, now),
    storedPolicy: (address) => storedPolicy(context.catalog, address),
  };
}

/**
 * A request without a version gets the account's default version; without a default, anonymous callers get the
 * newest.
 */
function blobVersionOf(head: RequestHead, { properties }: BlobContext) {
  if (namedVersion(head) !== undefined) return versionOf(head, blobAuth);
  return whenReady(
    properties.get(head.account.name, head.arrivedAt),
    ({ defaultServiceVersion }) => {
      if (defaultServiceVersion !== undefined) return defaultServiceVersion;
      const isAnonymous = head.header("authorization") === undefined;
      return isAnonymous ? NEWEST_VERSION : versionOf(head, blobAuth);
    },
  );
}

function refuse(head: RequestHead, method: string): ServiceError {
  if (isUnsupported(head)) return new ServiceError("NotImplemented");
  if (head.location.resource === "unknown restype") {
    const reason = "account, service or container is expected.";
    return invalidParameter("restype", head.query.get("restype") ?? "", reason);
  }
  return refuseRoute(BLOB_OPERATIONS, head, method);
}

/** HEAD requests and 304 answers get no body. */
function encodeBlobError(error: ServiceError, facts: ErrorFacts): WireResponse {
  const { status, code, headers } = error;
  const hasBody = status !== 304 && facts.head?.verb !== "HEAD";
  if (hasBody) return encodeStorageError(error, facts);
  return { status, headers: ["x-ms-error-code", code, ...headers.flat()] };
}
