import { join } from "node:path";
import type { BlobName } from "@rowhouse/server/blob/blob-keys";
import type { BlobProperties, CommittedBlob } from "@rowhouse/server/blob/blob-record";
import type { PublicAccess } from "@rowhouse/server/blob/container-value";
import { referenceTo } from "@rowhouse/server/blob/content-life/contents";
import { releaseAll } from "@rowhouse/server/blob/content-life/release";
import { openBlobService } from "@rowhouse/server/blob/open-blob-service";
import type { Foundation } from "@rowhouse/server/catalog/open-catalog";
import type { ContentStore } from "@rowhouse/server/content/content-store";
import { checkResourceName } from "@rowhouse/server/wire/resource-name";
import { type AzuriteChunk, chunkOf, Extents } from "./extent-source.ts";
import type { ImportCounts, RowImport } from "./row-import.ts";
import { metadataOf, parseRow, type Row, rowOf, textOf, timeOf } from "./row-members.ts";

export interface BlobImportOptions {
  readonly foundation: Foundation;
  readonly counts: ImportCounts;
  readonly folder: string;
  readonly contentStore: ContentStore;
}

const UNCONDITIONAL = {
  ifMatch: undefined,
  ifNoneMatch: undefined,
  ifModifiedSince: undefined,
  ifUnmodifiedSince: undefined,
};
const SPECIAL = new Set(["$root", "$web", "$logs"]);

/** Blobs with content, properties, metadata and times. ETags are made from the times, so they differ. */
export class BlobImport implements RowImport {
  readonly #options: BlobImportOptions;
  readonly #context;
  readonly #extents: Extents;

  constructor(options: BlobImportOptions) {
    const { contentStore, folder, foundation } = options;
    this.#options = options;
    const auth = { checkDate: true, bearer: undefined };
    // No request is served, so no copy has a source.
    const accounts = { find: () => undefined };
    const opened = openBlobService({ ...foundation, accounts, auth, contentStore });
    this.#context = opened.service.context;
    this.#extents = new Extents(join(folder, "__blobstorage__"));
  }

  async take(collection: string, bytes: Buffer): Promise<void> {
    if (collection === "$CONTAINERS_COLLECTION$") return this.#create(parseRow(bytes));
    if (collection === "$BLOBS_COLLECTION$") return this.#put(parseRow(bytes));
  }

  finish(): Promise<void> {
    return this.#extents.close();
  }

  async #create(row: Row): Promise<void> {
    const name = textOf(row, "name");
    if (!SPECIAL.has(name)) checkResourceName(name);
    const properties = rowOf(row, "properties");
    await this.#context.catalog.create(textOf(row, "accountName"), name, {
      modified: timeOf(properties, "lastModified") * 1000,
      metadata: metadataOf(row),
      publicAccess: publicAccessOf(properties.publicAccess),
      policies: [],
    });
    this.#options.counts.containers++;
  }

  async #put(row: Row): Promise<void> {
    if (row.isCommitted !== true) throw new Error("its blocks were never committed");
    if (typeof row.snapshot === "string" && row.snapshot !== "") {
      throw new Error("it is a snapshot, which Rowhouse does not keep");
    }
    const properties = rowOf(row, "properties");
    const type = textOf(properties, "blobType");
    if (type !== "BlockBlob" && type !== "AppendBlob") {
      throw new Error(`it is a ${type}, which Rowhouse does not keep`);
    }
    const name: BlobName = {
      account: textOf(row, "accountName"),
      container: textOf(row, "containerName"),
      blob: textOf(row, "name"),
    };
    const modified = timeOf(properties, "lastModified") * 1000;
    const { record } = await this.#context.blobs.read(name);
    if (record.blob !== undefined && record.blob.modified >= modified) {
      if (record.blob.modified > modified) this.#options.counts.newerHere++;
      return;
    }
    const facts = {
      modified,
      created: timeOf(properties, "creationTime") * 1000,
      properties: blobProperties(properties),
      metadata: metadataOf(row),
    };
    const chunks = chunksOf(row);
    if (type === "BlockBlob") await this.#putBlockBlob(name, chunks, facts);
    else await this.#putAppendBlob(name, chunks, facts, properties.isSealed === true);
    this.#options.counts.blobs++;
  }

  async #putBlockBlob(
    name: BlobName,
    chunks: readonly AzuriteChunk[],
    facts: Pick<CommittedBlob, "modified" | "created" | "properties" | "metadata">,
  ): Promise<void> {
    const { blobs, contents } = this.#context;
    const expected = incoming(chunks);
    const { content, digests } = await contents.receive(this.#extents.source(chunks), expected, {
      md5: true,
    });
    await blobs.change(
      name,
      ({ record }) => ({
        record: {
          blob: {
            ...facts,
            type: "BlockBlob",
            size: digests.bytes,
            content: referenceTo(content.stored),
          },
        },
        released: releaseAll(this.#context, record),
        result: undefined,
      }),
      [content],
    );
  }

  async #putAppendBlob(
    name: BlobName,
    chunks: readonly AzuriteChunk[],
    facts: Pick<CommittedBlob, "modified" | "created" | "properties" | "metadata">,
    sealed: boolean,
  ): Promise<void> {
    const { appends, blobs, contents } = this.#context;
    await blobs.change(name, ({ record }) => ({
      record: {
        blob: { ...facts, type: "AppendBlob", size: 0, content: { in: "nowhere" }, blocks: 0 },
      },
      released: releaseAll(this.#context, record),
      result: undefined,
    }));
    const account = { name: name.account, keys: [] };
    const identity = { kind: "shared-key" } as const;
    const wanted = {
      caller: { account, identity, verb: "PUT", arrivedAt: this.#options.foundation.clock.now() },
      conditions: UNCONDITIONAL,
      leaseId: undefined,
      position: undefined,
      sizeMax: undefined,
    };
    for (const chunk of chunks) {
      const received = await contents.receiveForList(
        this.#extents.source([chunk]),
        incoming([chunk]),
      );
      await appends.append(name, received.content, wanted);
    }
    await blobs.change(name, ({ record }) => ({
      record: { ...record, blob: { ...record.blob!, ...facts, ...(sealed && { sealed }) } },
      result: undefined,
    }));
  }
}

function incoming(chunks: readonly AzuriteChunk[]) {
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.bytes, 0);
  return { bytes, bodyBytes: bytes, isStructured: false, md5: undefined, crc64: undefined };
}

/** Where the content lies: in one run, in committed blocks, or nowhere. */
function chunksOf(row: Row): AzuriteChunk[] {
  const { committedBlocksInOrder: blocks, persistency } = row;
  if (Array.isArray(blocks) && blocks.length > 0) {
    return blocks.map((block: Row) => chunkOf(block));
  }
  return persistency === undefined ? [] : [chunkOf(row)];
}

function blobProperties(found: Row): BlobProperties {
  const text = (name: string) =>
    typeof found[name] === "string" ? String(found[name]) : undefined;
  return {
    contentType: text("contentType"),
    contentEncoding: text("contentEncoding"),
    contentLanguage: text("contentLanguage"),
    contentDisposition: text("contentDisposition"),
    cacheControl: text("cacheControl"),
    contentMd5: md5Of(found.contentMD5),
  };
}

/** The emulator writes the bytes as an object of numbered members. */
function md5Of(found: unknown): string | undefined {
  if (typeof found === "string") return found;
  if (typeof found !== "object" || found === null) return undefined;
  const bytes = Object.values("data" in found && Array.isArray(found.data) ? found.data : found);
  const md5 = Buffer.from(bytes.filter((byte) => typeof byte === "number"));
  return md5.length === 16 ? md5.toString("base64") : undefined;
}

function publicAccessOf(found: unknown): PublicAccess | undefined {
  return found === "blob" || found === "container" ? found : undefined;
}
