/** A request for one operation, valid for a container `docs` with a block blob `a` and an append blob `log`. */
export interface BlobSample {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /**
   * Letters of an account SAS, each sufficient alone, and its resource type; undefined if no account SAS
   * suffices.
   */
  readonly account: { readonly type: "s" | "c" | "o"; readonly letters: string } | undefined;
  /** Letters of a blob's or container's SAS, each sufficient alone; undefined if no such SAS suffices. */
  readonly service: string | undefined;
  /** The public access level that permits it without credentials. */
  readonly anonymousLevel?: "blob" | "container";
}

const BLOCK_BLOB = { "x-ms-blob-type": "BlockBlob" };
const SOURCE = { "x-ms-copy-source": "http://127.0.0.1/devstoreaccount1/docs/a" };
const LEASE = "1f812371-a41d-49e6-b123-f4b542e851c5";

export const ACCOUNT_SAMPLES: readonly BlobSample[] = [
  {
    name: "ListContainers",
    method: "GET",
    path: "/?comp=list",
    account: { type: "s", letters: "l" },
    service: undefined,
  },
  {
    name: "GetBlobServiceProperties",
    method: "GET",
    path: "/?restype=service&comp=properties",
    account: { type: "s", letters: "r" },
    service: undefined,
  },
  {
    name: "SetBlobServiceProperties",
    method: "PUT",
    path: "/?restype=service&comp=properties",
    body: "<StorageServiceProperties><Cors /></StorageServiceProperties>",
    account: { type: "s", letters: "w" },
    service: undefined,
  },
  {
    name: "BlobBatch",
    method: "POST",
    path: "/?comp=batch",
    headers: { "Content-Type": "multipart/mixed; boundary=batch_1" },
    body: "--batch_1\r\nContent-Type: application/http\r\n\r\nDELETE /devstoreaccount1/docs/none HTTP/1.1\r\n\r\n--batch_1--\r\n",
    account: { type: "o", letters: "dw" },
    service: undefined,
  },
  {
    name: "GetBlobServiceStats",
    method: "GET",
    path: "/?restype=service&comp=stats",
    account: { type: "s", letters: "r" },
    service: undefined,
  },
];

export const CONTAINER_SAMPLES: readonly BlobSample[] = [
  {
    name: "CreateContainer",
    method: "PUT",
    path: "/docs?restype=container",
    account: { type: "c", letters: "cw" },
    service: undefined,
  },
  {
    name: "GetContainerProperties",
    method: "GET",
    path: "/docs?restype=container",
    account: { type: "c", letters: "r" },
    service: undefined,
    anonymousLevel: "container",
  },
  {
    name: "GetContainerMetadata",
    method: "GET",
    path: "/docs?restype=container&comp=metadata",
    account: { type: "c", letters: "r" },
    service: undefined,
    anonymousLevel: "container",
  },
  {
    name: "SetContainerMetadata",
    method: "PUT",
    path: "/docs?restype=container&comp=metadata",
    account: { type: "c", letters: "w" },
    service: undefined,
  },
  {
    name: "GetContainerACL",
    method: "GET",
    path: "/docs?restype=container&comp=acl",
    account: undefined,
    service: undefined,
  },
  {
    name: "SetContainerACL",
    method: "PUT",
    path: "/docs?restype=container&comp=acl",
    body: "<SignedIdentifiers />",
    account: undefined,
    service: undefined,
  },
  {
    name: "LeaseContainer",
    method: "PUT",
    path: "/docs?restype=container&comp=lease",
    headers: { "x-ms-lease-action": "renew", "x-ms-lease-id": LEASE },
    account: { type: "c", letters: "w" },
    service: undefined,
  },
  {
    name: "DeleteContainer",
    method: "DELETE",
    path: "/docs?restype=container",
    account: { type: "c", letters: "d" },
    service: undefined,
  },
  {
    name: "ListBlobs",
    method: "GET",
    path: "/docs?restype=container&comp=list",
    account: { type: "c", letters: "l" },
    service: "l",
    anonymousLevel: "container",
  },
];

export const BLOB_SAMPLES: readonly BlobSample[] = [
  {
    name: "PutBlob",
    method: "PUT",
    path: "/docs/new",
    headers: BLOCK_BLOB,
    body: "x",
    account: { type: "o", letters: "cw" },
    service: "cw",
  },
  {
    name: "GetBlob",
    method: "GET",
    path: "/docs/a",
    account: { type: "o", letters: "r" },
    service: "r",
    anonymousLevel: "blob",
  },
  {
    name: "GetBlobProperties",
    method: "HEAD",
    path: "/docs/a",
    account: { type: "o", letters: "r" },
    service: "r",
    anonymousLevel: "blob",
  },
  {
    name: "GetBlobMetadata",
    method: "GET",
    path: "/docs/a?comp=metadata",
    account: { type: "o", letters: "r" },
    service: "r",
    anonymousLevel: "blob",
  },
  {
    name: "SetBlobMetadata",
    method: "PUT",
    path: "/docs/a?comp=metadata",
    account: { type: "o", letters: "w" },
    service: "w",
  },
  {
    name: "SetBlobProperties",
    method: "PUT",
    path: "/docs/a?comp=properties",
    account: { type: "o", letters: "w" },
    service: "w",
  },
  {
    name: "LeaseBlob",
    method: "PUT",
    path: "/docs/a?comp=lease",
    headers: { "x-ms-lease-action": "renew", "x-ms-lease-id": LEASE },
    account: { type: "o", letters: "w" },
    service: "w",
  },
  {
    name: "CopyBlob",
    method: "PUT",
    path: "/docs/new",
    headers: SOURCE,
    account: { type: "o", letters: "cw" },
    service: "cw",
  },
  {
    name: "AbortCopyBlob",
    method: "PUT",
    path: "/docs/a?comp=copy&copyid=1",
    headers: { "x-ms-copy-action": "abort" },
    account: { type: "o", letters: "w" },
    service: "w",
  },
  {
    name: "DeleteBlob",
    method: "DELETE",
    path: "/docs/a",
    account: { type: "o", letters: "d" },
    service: "d",
  },
  {
    name: "PutBlock",
    method: "PUT",
    path: "/docs/new?comp=block&blockid=AAAA",
    body: "x",
    account: { type: "o", letters: "w" },
    service: "cw",
  },
  {
    name: "PutBlockList",
    method: "PUT",
    path: "/docs/new?comp=blocklist",
    body: "<BlockList />",
    account: { type: "o", letters: "cw" },
    service: "cw",
  },
  {
    name: "GetBlockList",
    method: "GET",
    path: "/docs/a?comp=blocklist",
    account: { type: "o", letters: "r" },
    service: "r",
    anonymousLevel: "blob",
  },
  {
    name: "AppendBlock",
    method: "PUT",
    path: "/docs/log?comp=appendblock",
    body: "x",
    account: { type: "o", letters: "aw" },
    service: "aw",
  },
  {
    name: "AppendBlobSeal",
    method: "PUT",
    path: "/docs/log?comp=seal",
    account: { type: "o", letters: "w" },
    service: "w",
  },
  {
    name: "SetBlobTier",
    method: "PUT",
    path: "/docs/a?comp=tier",
    headers: { "x-ms-access-tier": "Cool" },
    account: { type: "o", letters: "w" },
    service: "w",
  },
];
