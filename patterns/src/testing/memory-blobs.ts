import type {
  BlobContent,
  BlobPage,
  BlobsPort,
  ByteRange,
  DeleteBlobOptions,
  ListBlobsOptions,
  Metadata,
  PutOptions,
} from "../ports/blobs.ts";
import { concatenated } from "../ports/edm.ts";
import { PortError } from "../ports/port-error.ts";
import type { Clock } from "../store/clock.ts";

interface Blob extends BlobContent {
  /** Blocks of an append blob; undefined for a block blob. */
  readonly blockCount?: number;
}

type Blocks = ReadonlyMap<string, Uint8Array>;

const BLOCK_BYTES_MAX = 4 * 1024 * 1024;
const BLOCKS_MAX = 50_000;
const PAGE_BLOBS_MAX = 5000;

export interface MemoryBlobsOptions {
  readonly clock: Clock;
  readonly pageBlobsMax?: number;
  /** Lower it to test a full append blob. */
  readonly blocksMax?: number;
}

/** A Blob endpoint in memory. */
export class MemoryBlobs implements BlobsPort {
  readonly #options: MemoryBlobsOptions;
  readonly #containers = new Map<string, Map<string, Blob>>();
  /** By container and blob: the staged blocks, and the blocks that the blob consists of. */
  readonly #blocks = new Map<string, { readonly staged: Blocks; readonly committed: Blocks }>();
  #count = 0;

  constructor(options: MemoryBlobsOptions) {
    this.#options = options;
  }

  /** The number of blobs with staged blocks that were not committed. */
  get stagedCount(): number {
    return [...this.#blocks.values()].filter(({ staged }) => staged.size > 0).length;
  }

  async createContainer(container: string): Promise<boolean> {
    if (!/^[a-z0-9](-?[a-z0-9]){2,62}$/.test(container)) throw refusal(400, "InvalidResourceName");
    if (this.#containers.has(container)) return false;
    this.#containers.set(container, new Map());
    return true;
  }

  async get(container: string, name: string, range?: ByteRange): Promise<BlobContent | undefined> {
    const blob = this.#blobs(container).get(name);
    if (!blob) return undefined;
    const { offset, count } = range ?? { offset: 0, count: blob.length };
    if (range && offset >= blob.length) throw refusal(416, "InvalidRange");
    const body = blob.body.slice(offset, offset + count);
    return { ...blob, body, length: body.length };
  }

  async put(
    container: string,
    name: string,
    body: Uint8Array,
    options: PutOptions = {},
  ): Promise<string> {
    const current = this.#blobs(container).get(name);
    const { condition, contentType, metadata = {} } = options;
    if (condition === "absent" && current) throw refusal(409, "BlobAlreadyExists");
    if (typeof condition === "object" && condition.ifMatch !== current?.etag)
      throw refusal(412, "ConditionNotMet");
    return this.#write(container, name, {
      body: body.slice(),
      metadata,
      ...(contentType && { contentType }),
    });
  }

  async stageBlock(container: string, name: string, id: string, block: Uint8Array): Promise<void> {
    if (this.#blobs(container).get(name)?.blockCount !== undefined)
      throw refusal(409, "InvalidBlobType");
    const { staged, committed } = this.#blocksOf(container, name);
    const [other = id] = staged.keys();
    if (other.length !== id.length) throw refusal(400, "InvalidBlobOrBlock");
    const blocks = { staged: new Map([...staged, [id, block.slice()]]), committed };
    this.#blocks.set(`${container}/${name}`, blocks);
  }

  async commitBlocks(
    container: string,
    name: string,
    ids: readonly string[],
    { contentType }: Pick<PutOptions, "contentType"> = {},
  ): Promise<string> {
    const { staged, committed } = this.#blocksOf(container, name);
    const blocks = ids.map((id) => staged.get(id) ?? committed.get(id));
    const known = blocks.filter((block) => block !== undefined);
    if (known.length < ids.length) throw refusal(400, "InvalidBlockList");
    const etag = this.#write(container, name, {
      body: concatenated(known),
      metadata: {},
      ...(contentType && { contentType }),
    });
    this.#blocks.set(`${container}/${name}`, {
      staged: new Map(),
      committed: new Map(known.map((block, i) => [ids[i]!, block])),
    });
    return etag;
  }

  #blocksOf(container: string, name: string) {
    this.#blobs(container);
    return this.#blocks.get(`${container}/${name}`) ?? { staged: new Map(), committed: new Map() };
  }

  async createAppendBlob(
    container: string,
    name: string,
    metadata: Metadata = {},
  ): Promise<string> {
    if (this.#blobs(container).has(name)) throw refusal(409, "BlobAlreadyExists");
    return this.#write(container, name, { body: new Uint8Array(), metadata, blockCount: 0 });
  }

  async append(
    container: string,
    name: string,
    block: Uint8Array,
    position: number,
  ): Promise<string> {
    const blob = this.#existing(container, name);
    if (blob.blockCount === undefined) throw refusal(409, "InvalidBlobType");
    if (block.length > BLOCK_BYTES_MAX) throw refusal(413, "RequestBodyTooLarge");
    if (blob.body.length !== position) throw refusal(412, "AppendPositionConditionNotMet");
    if (blob.blockCount >= (this.#options.blocksMax ?? BLOCKS_MAX))
      throw refusal(409, "BlockCountExceedsLimit");
    const body = new Uint8Array(position + block.length);
    body.set(blob.body);
    body.set(block, position);
    return this.#write(container, name, { ...blob, body, blockCount: blob.blockCount + 1 });
  }

  async setMetadata(container: string, name: string, metadata: Metadata): Promise<string> {
    return this.#write(container, name, { ...this.#existing(container, name), metadata });
  }

  async delete(container: string, name: string, options: DeleteBlobOptions = {}): Promise<boolean> {
    const blobs = this.#blobs(container);
    const blob = blobs.get(name);
    if (!blob) return false;
    const { ifMatch, ifUnmodifiedSince } = options;
    const isChanged = ifUnmodifiedSince !== undefined && blob.lastModified > ifUnmodifiedSince;
    if (isChanged || (ifMatch !== undefined && ifMatch !== blob.etag))
      throw refusal(412, "ConditionNotMet");
    this.#blocks.delete(`${container}/${name}`);
    return blobs.delete(name);
  }

  async list(
    container: string,
    { prefix = "", continuation = "", max }: ListBlobsOptions,
  ): Promise<BlobPage> {
    const limit = Math.min(max ?? PAGE_BLOBS_MAX, this.#options.pageBlobsMax ?? PAGE_BLOBS_MAX);
    const names = [...this.#blobs(container).keys()]
      .filter((name) => name.startsWith(prefix) && name >= continuation)
      .sort();
    const blobs = names.slice(0, limit).map((name) => {
      const { etag, lastModified, metadata, length } = this.#existing(container, name);
      return { name, length, etag, lastModified, metadata };
    });
    const next = names[limit];
    return { blobs, ...(next !== undefined && { continuation: next }) };
  }

  #write(
    container: string,
    name: string,
    blob: Omit<Blob, "etag" | "lastModified" | "length">,
  ): string {
    const etag = `"0x${(++this.#count).toString(16).padStart(16, "0")}"`;
    // The service reports the time of a change in whole seconds.
    const lastModified = new Date(Math.floor(this.#options.clock.now() / 1000) * 1000);
    this.#blocks.delete(`${container}/${name}`);
    this.#blobs(container).set(name, { ...blob, etag, lastModified, length: blob.body.length });
    return etag;
  }

  #existing(container: string, name: string): Blob {
    const blob = this.#blobs(container).get(name);
    if (!blob) throw refusal(404, "BlobNotFound");
    return blob;
  }

  #blobs(container: string): Map<string, Blob> {
    const blobs = this.#containers.get(container);
    if (!blobs) throw refusal(404, "ContainerNotFound");
    return blobs;
  }
}

function refusal(status: number, code: string): PortError {
  return new PortError(`The service answers ${status} ${code}.`, { status, code });
}
