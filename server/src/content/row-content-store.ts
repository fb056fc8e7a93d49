import { handledLater } from "../awaitable.ts";
import { type Check, type Engine, EngineError, type Key, type Put } from "../engine/engine.ts";
import {
  copyKey,
  decodeId,
  encodeId,
  partitionPrefixRange,
  partitionRange,
} from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import type { ContentId, ContentStore } from "./content-store.ts";

/** The most bytes in a row; PostgreSQL and LMDB both handle such values comfortably. */
const ROW_BYTES = 128 << 10;
/** Rows of one commit while a content is written, and of one scan while it is read. */
const ROWS_TOGETHER = 8;
const KEYS_PER_DELETE = 256;

/**
 * Contents as rows in an engine: contents that fit one row next to the metadata of every engine, and all
 * contents on an engine without files. Row n of a content is stored under its id and n.
 */
export class RowContentStore implements ContentStore {
  readonly #engine: Engine;
  readonly #space: number;

  /** @param space the first byte of the partitions that hold contents, and nothing else */
  constructor(engine: Engine, space: number) {
    this.#engine = engine;
    this.#space = space;
  }

  /** Contents up to this size are one row, which can be written and deleted together with their metadata. */
  get rowBytesMax(): number {
    return ROW_BYTES;
  }

  /** The only row of a content, to be put with the metadata that refers to it. */
  rowOf(id: ContentId, bytes: Uint8Array): Put {
    return { key: this.keyOf(id), value: bytes };
  }

  /** The key of the first row. */
  keyOf(id: ContentId): Key {
    return this.#rowKey(id, 0);
  }

  async write(id: ContentId, bytes: AsyncIterable<Uint8Array>, fence?: Check): Promise<void> {
    let rows: Put[] = [];
    let committing: Promise<unknown> = Promise.resolve();
    const commit = async () => {
      // One commit is in flight while the next rows gather.
      await committing;
      const puts = rows;
      rows = [];
      committing = handledLater(this.#commit(puts, [], fence));
    };
    let index = 0;
    try {
      for await (const value of rowsOf(bytes)) {
        rows.push({ key: this.#rowKey(id, index++), value });
        if (rows.length === ROWS_TOGETHER) await commit();
      }
      // An empty content has one empty row, so that it exists.
      if (index === 0) rows.push({ key: this.keyOf(id), value: new Uint8Array(0) });
      await commit();
    } finally {
      await committing;
    }
  }

  async *read(id: ContentId, start: number, end: number): AsyncGenerator<Uint8Array> {
    let at = start;
    while (at < end) {
      const rows = await this.#readRows(id, Math.floor(at / ROW_BYTES), end);
      for (const row of rows) {
        const from = at % ROW_BYTES;
        const part = row.subarray(from, from + end - at);
        if (part.length === 0) break;
        at += part.length;
        yield part;
      }
      if (rows.length === 0 || (at < end && at % ROW_BYTES !== 0)) {
        throw new EngineError(
          "Corrupt",
          `Content ${id} ends at byte ${at}; it must reach byte ${end}.`,
        );
      }
    }
  }

  async copy(from: ContentId, to: ContentId, fence?: Check): Promise<void> {
    for (let index = 0; ; index += ROWS_TOGETHER) {
      const rows = await this.#readRows(from, index, Number.POSITIVE_INFINITY);
      if (index === 0 && rows.length === 0) {
        throw new EngineError("Corrupt", `Content ${from} is missing.`);
      }
      const puts = rows.map((value, i) => ({ key: this.#rowKey(to, index + i), value }));
      if (puts.length > 0) await this.#commit(puts, [], fence);
      if (rows.length < ROWS_TOGETHER) break;
    }
    // The content ends here, or another process has begun to delete it: a delete removes the first row before
    // the others or along with them.
    const [first] = await this.#engine.get([this.keyOf(from)]);
    if (first === undefined) throw deleted(from);
  }

  async delete(id: ContentId): Promise<void> {
    const range = partitionRange(this.#partition(id));
    for (let more = true; more; ) {
      const keys: Key[] = [];
      await this.#engine.scan(range, ({ key }) => keys.push(copyKey(key)) < KEYS_PER_DELETE, {
        entriesExpected: KEYS_PER_DELETE,
      });
      if (keys.length > 0) await this.#commit([], keys);
      more = keys.length > 0;
    }
  }

  async *list(): AsyncGenerator<ContentId> {
    const range = partitionPrefixRange(Uint8Array.of(this.#space));
    const ids: ContentId[] = [];
    await scanToEnd(this.#engine, range, ({ key }) => {
      const id = Buffer.from(key.partition.subarray(1)).toString("latin1");
      if (id !== ids.at(-1)) ids.push(id);
      return true;
    });
    yield* ids;
  }

  async close(): Promise<void> {}

  /**
   * A few rows from `index` on, as far as byte `end` needs them.
   * @throws EngineError `Unavailable` if rows are missing that others follow: they are being deleted.
   */
  async #readRows(id: ContentId, index: number, end: number): Promise<Uint8Array[]> {
    const rowsMax = Math.min(ROWS_TOGETHER, Math.ceil(end / ROW_BYTES) - index);
    const rows: Uint8Array[] = [];
    const { end: last } = partitionRange(this.#partition(id));
    let isWhole = true;
    await scanToEnd(
      this.#engine,
      { start: this.#rowKey(id, index), end: last },
      ({ key, value }) => {
        isWhole = decodeId(key.sort).id === index + rows.length;
        return isWhole && rows.push(Uint8Array.from(value)) < rowsMax;
      },
      { entriesExpected: rowsMax },
    );
    if (!isWhole) throw deleted(id);
    return rows;
  }

  async #commit(puts: readonly Put[], deletes: readonly Key[], fence?: Check): Promise<void> {
    const version = this.#engine.nextVersion();
    const checks = fence ? [fence] : [];
    const { committed } = await this.#engine.commit({ version, checks, puts, deletes });
    if (!committed)
      throw new EngineError(
        "Unavailable",
        "Another process discarded the content while it was being written.",
      );
  }

  #rowKey(id: ContentId, index: number): Key {
    return { partition: this.#partition(id), sort: encodeId(index) };
  }

  #partition(id: ContentId): Uint8Array {
    const partition = Buffer.allocUnsafe(1 + id.length);
    partition[0] = this.#space;
    partition.write(id, 1, "latin1");
    return partition;
  }
}

function deleted(id: ContentId): EngineError {
  return new EngineError("Unavailable", `Content ${id} is being deleted.`);
}

/** The same bytes in rows, all of them full except the last. */
async function* rowsOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let row = Buffer.allocUnsafeSlow(ROW_BYTES);
  let filled = 0;
  for await (const part of bytes) {
    for (let at = 0; at < part.length; ) {
      const taken = part.subarray(at, at + ROW_BYTES - filled);
      row.set(taken, filled);
      filled += taken.length;
      at += taken.length;
      if (filled < ROW_BYTES) continue;
      yield row;
      row = Buffer.allocUnsafeSlow(ROW_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield row.subarray(0, filled);
}
