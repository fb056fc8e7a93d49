import { type Awaitable, handledLater, whenReady } from "../../awaitable.ts";
import type { ContentIds } from "../../content/content-ids.ts";
import type { ContentId, ContentStore } from "../../content/content-store.ts";
import type { RowContentStore } from "../../content/row-content-store.ts";
import { eachBounded } from "../../each-bounded.ts";
import type { Engine, Key } from "../../engine/engine.ts";
import type { BodySource } from "../../wire/body-source.ts";
import type { CommittedBlob, ContentReference } from "../blob-record.ts";
import type { Digests } from "./content-digest.ts";
import { gone, type PlacedExtent, readExtents, type StoredContent } from "./extents.ts";
import { type IncomingContent, receiveWhole, summedContent } from "./incoming-content.ts";
import { type NewContent, NO_CONTENT } from "./new-content.ts";
import { givenUp, type Making, type Notes } from "./notes.ts";
import type { Readers } from "./readers.ts";
import { NOTHING_RELEASED, type Released } from "./released.ts";
import { UploadParts } from "./upload-parts.ts";

export interface ReceivedContent {
  readonly content: NewContent;
  readonly digests: Digests;
}

export interface ContentsOptions {
  readonly engine: Engine;
  readonly ids: ContentIds;
  readonly rows: RowContentStore;
  readonly store: ContentStore;
  readonly notes: Notes;
  readonly readers: Readers;
}

/** A content, and the id that its copy gets. */
export interface ContentCopy {
  readonly from: StoredContent;
  readonly to: ContentId;
}

/**
 * Stores and reads contents. Content that fits a row is stored in the engine, by the very commit that gives
 * it to a blob and in the flush that this commit shares with others. Larger content first goes to the content
 * store, under a note that it is in the making.
 */
export class Contents {
  readonly #options: ContentsOptions;

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  /** Whether content of this length is held in memory from its arrival to its commit. */
  isSmall(bytes: number): boolean {
    return bytes <= this.#options.rows.rowBytesMax;
  }

  /**
   * Reads a body to its end and stores its content.
   * @throws ServiceError as `summedContent` does; BodyAborted.
   */
  async receive(
    source: BodySource | undefined,
    expected: IncomingContent,
    wanted: { readonly md5: boolean },
  ): Promise<ReceivedContent> {
    if (this.isSmall(expected.bytes)) {
      const { bytes, digests } = await receiveWhole(source, expected, wanted);
      return { content: this.newRow(bytes), digests };
    }
    const body = source ?? NO_BODY;
    let summing: Promise<Digests> | undefined;
    const parts = new UploadParts();
    const content = summedContent(body, expected, wanted, parts, (whole) => {
      summing = handledLater(whole);
    });
    // Parts arrive while the note is written, which takes a flush.
    const arriving = requestedAhead(content);
    try {
      const stored = await this.store(arriving, expected.bytes);
      // The last checksums are computed during the last flush. What is on disk is still only in the making: a
      // crash leaves its note, and a refusal here turns it into garbage.
      try {
        if (summing === undefined) throw new Error("Content ended without its checksums.");
        return { content: stored, digests: await summing };
      } catch (error) {
        stored.making?.giveUp();
        throw error;
      }
    } finally {
      arriving.return().catch(() => {});
      parts.giveBack();
    }
  }

  /** The same for an extent: small content is stored in the list of extents itself and needs no row. */
  receiveForList(
    source: BodySource | undefined,
    expected: IncomingContent,
  ): Awaitable<ReceivedContent> {
    const wanted = { md5: false };
    if (!this.isSmall(expected.bytes)) return this.receive(source, expected, wanted);
    const received = receiveWhole(source, expected, wanted);
    return whenReady(received, ({ bytes, digests }) => ({
      content: { ...NO_CONTENT, bytes },
      digests,
    }));
  }

  /** The engine key of a content that is one row. */
  rowKey(id: ContentId): Key {
    return this.#options.rows.keyOf(id);
  }

  /** Prepares content that is all in memory: the commit puts it as a row. */
  newRow(bytes: Uint8Array): NewContent {
    if (bytes.length === 0) return NO_CONTENT;
    const { ids, rows } = this.#options;
    const id = ids.next();
    return {
      stored: { in: "row", id, length: bytes.length },
      bytes,
      checks: [],
      puts: [rows.rowOf(id, bytes)],
      deletes: [],
      making: undefined,
    };
  }

  /** Streams content of known length to the content store, under a note. */
  async store(content: AsyncIterable<Uint8Array>, length: number): Promise<NewContent> {
    return this.#make(length, (id, { check }) => this.#options.store.write(id, content, check));
  }

  /** Copies a content for another blob to own. */
  async copy({ in: place, id, length }: StoredContent): Promise<NewContent> {
    const { store } = this.#options;
    if (place === "row") return this.newRow(await this.#row(id));
    return this.#make(length, (to, { check }) => store.copy(id, to, check));
  }

  /**
   * Copies contents to ids that a list in the making already refers to. Several rows share a commit: a copy
   * of 50,000 small blocks writes an eleventh of what it would with a commit for each, and takes an eighth of
   * the time.
   */
  async copyAll(copies: readonly ContentCopy[], making: Making): Promise<void> {
    const { engine, store } = this.#options;
    const inStore = copies.filter(({ from }) => from.in === "store");
    const inRows = copies.filter(({ from }) => from.in === "row");
    await eachBounded(rowGroups(inRows), (group) => this.#copyRows(group, making));
    await eachBounded(inStore, ({ from, to }) => store.copy(from.id, to, making.check));
    if (inStore.length === 0) return;
    // The check on the note does not fence files. A collector that took this process for dead may have freed
    // the list before the files existed, and nothing else would find them.
    const [note] = await engine.get([making.note]);
    if (note !== undefined) return;
    await eachBounded(inStore, ({ to }) => store.delete(to));
    throw givenUp();
  }

  async #copyRows(copies: readonly ContentCopy[], making: Making): Promise<void> {
    const { engine, rows } = this.#options;
    const found = await engine.get(copies.map(({ from }) => rows.keyOf(from.id)));
    const puts = copies.map(({ from, to }, i) => {
      const row = found[i];
      if (row === undefined) throw gone(from.id);
      return rows.rowOf(to, row.value);
    });
    await making.put(puts);
  }

  async #make(
    length: number,
    work: (id: ContentId, making: Making) => Promise<void>,
  ): Promise<NewContent> {
    const making = await this.#options.notes.beginContent();
    const { id } = making;
    try {
      await work(id, making);
    } catch (error) {
      making.giveUp();
      throw error;
    }
    return {
      stored: { in: "store", id, length },
      bytes: undefined,
      checks: [making.check],
      puts: [making.spare],
      deletes: [making.note],
      making,
    };
  }

  /**
   * Bytes `start` to `end` (exclusive) of a blob, in parts that are each lent until the next one is
   * requested.
   */
  read(blob: CommittedBlob, start: number, end: number): AsyncIterable<Uint8Array> {
    const { content } = blob;
    const { readers } = this.#options;
    switch (content.in) {
      case "nowhere":
        return nothing();
      case "row":
        return this.#readRow(content.id, start, end);
      case "store":
        return readers.during(content.id, this.#options.store.read(content.id, start, end));
      case "list":
        return readers.during(content.id, this.#readList(content.id, start, end));
    }
  }

  /** What a commit that releases a blob's content must contain. */
  release(content: ContentReference, successor?: string): Released {
    const { notes, rows } = this.#options;
    switch (content.in) {
      case "nowhere":
        return NOTHING_RELEASED;
      case "row":
        return { puts: [], deletes: [rows.keyOf(content.id)] };
      case "store":
        return { puts: [notes.garbage({ kind: "content", id: content.id })], deletes: [] };
      case "list":
        return { puts: [notes.garbage({ kind: "list", id: content.id }, successor)], deletes: [] };
    }
  }

  async *#readRow(id: ContentId, start: number, end: number): AsyncGenerator<Uint8Array> {
    yield (await this.#row(id)).subarray(start, end);
  }

  async #row(id: ContentId): Promise<Uint8Array> {
    const { engine, rows } = this.#options;
    const [row] = await engine.get([rows.keyOf(id)]);
    if (row === undefined) throw gone(id);
    return row.value;
  }

  async *#readList(list: string, start: number, end: number): AsyncGenerator<Uint8Array> {
    let at = start;
    for await (const extents of readExtents(this.#options.engine, list, start, end)) {
      for (const placed of extents) {
        const until = Math.min(end, placed.end);
        yield* this.#readExtent(placed, at, until);
        at = until;
      }
    }
  }

  async *#readExtent(
    { extent, start }: PlacedExtent,
    from: number,
    until: number,
  ): AsyncGenerator<Uint8Array> {
    if ("bytes" in extent) yield extent.bytes.subarray(from - start, until - start);
    else if (extent.in === "row") yield* this.#readRow(extent.id, from - start, until - start);
    else yield* this.#options.store.read(extent.id, from - start, until - start);
  }
}

/** Most bytes copied by one commit; a longer row gets its own commit. */
const GROUP_BYTES_MAX = 256 << 10;

function* rowGroups(copies: readonly ContentCopy[]): Generator<readonly ContentCopy[]> {
  let group: ContentCopy[] = [];
  let bytes = 0;
  for (const copy of copies) {
    if (group.length > 0 && bytes + copy.from.length > GROUP_BYTES_MAX) {
      yield group;
      group = [];
      bytes = 0;
    }
    group.push(copy);
    bytes += copy.from.length;
  }
  if (group.length > 0) yield group;
}

/** The reference for a blob whose bytes are one content, or none. */
export function referenceTo(stored: StoredContent | undefined): ContentReference {
  return stored === undefined ? { in: "nowhere" } : { in: stored.in, id: stored.id };
}

/** Copies all parts, which may be lent, into one buffer. */
export async function gather(
  parts: AsyncIterable<Uint8Array>,
  length: number,
): Promise<Uint8Array> {
  const gathered = Buffer.allocUnsafeSlow(length);
  let filled = 0;
  for await (const part of parts) {
    gathered.set(part, filled);
    filled += part.length;
  }
  return gathered.subarray(0, filled);
}

type Parts = AsyncGenerator<Uint8Array, void, undefined>;

/** The same parts, with the first two requested in advance: as many as `UploadParts` lends at a time. */
function requestedAhead(parts: Parts) {
  const first = [handledLater(parts.next()), handledLater(parts.next())];
  return {
    next: () => first.shift() ?? parts.next(),
    return: () => parts.return(),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const NO_BODY = { fill: () => 0, reserve() {} };

async function* nothing(): AsyncGenerator<Uint8Array> {}
