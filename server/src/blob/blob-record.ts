import { toBuffer } from "../byte-views.ts";
import type { ContentId } from "../content/content-store.ts";
import type { Entry } from "../engine/engine.ts";
import type { Metadata } from "../wire/metadata.ts";
import type { Lease } from "./lease.ts";

/**
 * The value stored under a blob's name, as JSON: the committed blob, and the draft that collects uncommitted
 * blocks. At least one of the two is present.
 */
export interface BlobRecord {
  readonly blob?: CommittedBlob | undefined;
  readonly draft?: DraftReference | undefined;
}

export type BlobType = "BlockBlob" | "AppendBlob";

export interface CommittedBlob {
  readonly type: BlobType;
  readonly size: number;
  readonly content: ContentReference;
  /** Microseconds since 1970; see `validators.ts`. */
  readonly modified: number;
  readonly created: number;
  readonly properties: BlobProperties;
  readonly metadata: Metadata;
  readonly accessTier?: string | undefined;
  /** Milliseconds since 1970; undefined until Set Blob Tier is called. */
  readonly tierChangedAt?: number | undefined;
  readonly lease?: Lease | undefined;
  readonly copy?: CopyFacts | undefined;
  /** Append blobs only: the number of blocks appended. */
  readonly blocks?: number | undefined;
  readonly sealed?: true | undefined;
}

/** Where a blob's bytes are stored. */
export type ContentReference =
  /** The blob is empty. */
  | { readonly in: "nowhere" }
  /** One row of the engine, written and deleted with the record. */
  | { readonly in: "row"; readonly id: ContentId }
  /** The content store. */
  | { readonly in: "store"; readonly id: ContentId }
  /** A list of extents, in order; see `content-life/extents.ts`. */
  | { readonly in: "list"; readonly id: string };

export function contentIdOf(blob: CommittedBlob | undefined): string | undefined {
  return blob === undefined || blob.content.in === "nowhere" ? undefined : blob.content.id;
}

/** The properties that clients set and read back. */
export interface BlobProperties {
  readonly contentType?: string | undefined;
  readonly contentEncoding?: string | undefined;
  readonly contentLanguage?: string | undefined;
  readonly contentDisposition?: string | undefined;
  readonly cacheControl?: string | undefined;
  /** Base64. */
  readonly contentMd5?: string | undefined;
}

/** Facts about the last copy into the blob, which clients may query. */
export interface CopyFacts {
  readonly id: string;
  /** The URL as sent. */
  readonly source: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly completedAt: number;
}

export interface DraftReference {
  readonly id: string;
  /** All uncommitted blocks of a blob have ids of the same length. */
  readonly blockIdBytes: number;
}

export function encodeRecord(record: BlobRecord): Uint8Array {
  return Buffer.from(JSON.stringify(record), "utf8");
}

/** Reads only what `encodeRecord` wrote. */
export function decodeRecord({ value }: Pick<Entry, "value">): BlobRecord {
  return JSON.parse(toBuffer(value).toString("utf8")) as BlobRecord;
}
