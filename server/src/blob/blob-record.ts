import { toBuffer } from "../byte-views.ts";
import type { ContentId } from "../content/content-store.ts";
import type { Entry } from "../engine/engine.ts";
import type { Metadata } from "../http/metadata.ts";
import type { Lease } from "./lease.ts";

/**
 * What is stored under the name of a blob, as JSON: what was committed, and the draft that gathers
 * uncommitted blocks. One of the two is always there.
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
  readonly lease?: Lease | undefined;
  readonly copy?: CopyFacts | undefined;
  /** Append blobs only: how many blocks were appended. */
  readonly blocks?: number | undefined;
  readonly sealed?: true | undefined;
}

/** Where the bytes of a blob are. */
export type ContentReference =
  /** There are none. */
  | { readonly in: "nowhere" }
  /** One row of the engine, written and deleted with the record. */
  | { readonly in: "row"; readonly id: ContentId }
  /** The content store. */
  | { readonly in: "store"; readonly id: ContentId }
  /** Several pieces, each of them anywhere; see `extents.ts`. */
  | { readonly in: "list"; readonly id: string };

export function contentIdOf(blob: CommittedBlob | undefined): string | undefined {
  return blob === undefined || blob.content.in === "nowhere" ? undefined : blob.content.id;
}

/** The properties that clients set and get back. */
export interface BlobProperties {
  readonly contentType?: string | undefined;
  readonly contentEncoding?: string | undefined;
  readonly contentLanguage?: string | undefined;
  readonly contentDisposition?: string | undefined;
  readonly cacheControl?: string | undefined;
  /** Base64. */
  readonly contentMd5?: string | undefined;
}

/** What the last copy into the blob left to be asked about. */
export interface CopyFacts {
  readonly id: string;
  /** The URL as it was sent. */
  readonly source: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly completedAt: number;
}

export interface DraftReference {
  readonly id: string;
  /** All uncommitted blocks of a blob have ids of one length. */
  readonly blockIdBytes: number;
}

export function encodeRecord(record: BlobRecord): Uint8Array {
  return Buffer.from(JSON.stringify(record), "utf8");
}

/** Only what `encodeRecord` wrote is read here. */
export function decodeRecord({ value }: Pick<Entry, "value">): BlobRecord {
  return JSON.parse(toBuffer(value).toString("utf8")) as BlobRecord;
}
