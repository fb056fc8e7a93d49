import type { Deadline } from "./tables.ts";

/** Everything the library needs of a Blob endpoint. Each call is one request; see `tables.ts`. */
export interface BlobsPort {
  /** False when the container already exists. */
  createContainer(container: string): Promise<boolean>;
  /** Undefined when the blob is absent. */
  get(container: string, blob: string, range?: ByteRange): Promise<BlobContent | undefined>;
  /** @returns the new ETag. */
  put(container: string, blob: string, body: Uint8Array, options?: PutOptions): Promise<string>;
  /**
   * Stages a block of a future block blob; it is invisible until `commitBlocks`. The ids of a blob's blocks are
   * Base64 and of equal length. The service drops blocks that are not committed within a week.
   */
  stageBlock(container: string, blob: string, id: string, block: Uint8Array): Promise<void>;
  /**
   * Makes the blob consist of these blocks, in this order; other staged blocks are dropped. @returns the new
   * ETag.
   */
  commitBlocks(
    container: string,
    blob: string,
    ids: readonly string[],
    options?: Pick<PutOptions, "contentType">,
  ): Promise<string>;
  /** Creates an empty append blob; `PortError` 409 when the name is taken. */
  createAppendBlob(container: string, blob: string, metadata?: Metadata): Promise<string>;
  /** Appends a block at `position`, which must be the blob's length: `PortError` 412 otherwise. */
  append(container: string, blob: string, block: Uint8Array, position: number): Promise<string>;
  setMetadata(container: string, blob: string, metadata: Metadata): Promise<string>;
  /** False when the blob is absent; `PortError` 412 when a condition fails. */
  delete(container: string, blob: string, options?: DeleteBlobOptions): Promise<boolean>;
  /** One page in name order. */
  list(container: string, options: ListBlobsOptions): Promise<BlobPage>;
}

export type Metadata = Readonly<Record<string, string>>;

export interface BlobInfo {
  readonly name: string;
  readonly length: number;
  readonly etag: string;
  readonly lastModified: Date;
  readonly metadata: Metadata;
}

/** `body` and `length` are those of the range, if one was requested. */
export interface BlobContent extends Omit<BlobInfo, "name"> {
  readonly body: Uint8Array;
  readonly contentType?: string;
}

/** A part of a blob; it must begin inside it. */
export interface ByteRange {
  readonly offset: number;
  readonly count: number;
}

export interface PutOptions extends Deadline {
  /** An ETag, or `absent`: the blob must not exist. */
  readonly condition?: { readonly ifMatch: string } | "absent";
  readonly contentType?: string;
  readonly metadata?: Metadata;
}

export interface DeleteBlobOptions extends Deadline {
  readonly ifMatch?: string;
  readonly ifUnmodifiedSince?: Date;
}

export interface ListBlobsOptions {
  readonly prefix?: string;
  readonly continuation?: string;
  readonly max?: number;
}

export interface BlobPage {
  readonly blobs: readonly BlobInfo[];
  readonly continuation?: string;
}
