import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type AtomicWrite, type CommitResult, EngineError } from "../engine/engine.ts";
import { type LmdbEngine, openLmdbEngine } from "../engine/lmdb/lmdb-engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { testContentStoreConformance } from "./conformance.ts";
import { RowContentStore } from "./row-content-store.ts";

const SPACE = 0x34;

testContentStoreConformance({
  name: "RowContentStore over the memory engine",
  open: async () => new RowContentStore(new MemoryEngine(), SPACE),
});

const engines = new WeakMap<object, LmdbEngine>();

testContentStoreConformance({
  name: "RowContentStore over the LMDB engine",
  open: async () => {
    const engine = await openLmdbEngine({ path: mkdtempSync(join(tmpdir(), "rowhouse-rows-")) });
    const store = new RowContentStore(engine, SPACE);
    engines.set(store, engine);
    return store;
  },
  discard: async (closed) => {
    const engine = engines.get(closed)!;
    await engine.close();
    rmSync(engine.path, { recursive: true });
  },
});

const from = "00000000001aaaaa";
const to = "00000000002aaaaa";
const rowBytes = 128 << 10;

describe("A content that is being written in rows", () => {
  it("is written eight rows per commit, one commit after the other", async () => {
    const engine = new CountingEngine();
    await new RowContentStore(engine, SPACE).write(from, numberedRows(21));
    assert.deepEqual(engine.puts, [8, 8, 5]);
    assert.equal(engine.atOnceMax, 1);
  });

  for (const nth of [1, 2, 3]) {
    it(`is reported as not written when commit ${nth} of three fails`, async () => {
      const engine = new InterruptedEngine();
      const error = new EngineError("Unavailable", "no space left");
      engine.interruptCommit(nth, () => Promise.reject(error));
      const writing = new RowContentStore(engine, SPACE).write(from, numberedRows(21));
      await assert.rejects(writing, error);
    });
  }
});

describe("Contents in rows that another process is deleting", () => {
  // Copies read eight rows at a time: 16 end with such a read, 21 in the middle of one. Deletes take 256 rows
  // at a time: of 300 the last ones stay a while longer.
  for (const rows of [9, 16, 21, 300]) {
    for (const moment of ["first", "last"] as const) {
      it(`are never copied in part: ${rows} rows, deleted before the ${moment} commit of the copy`, async () => {
        const engine = new InterruptedEngine();
        const store = new RowContentStore(engine, SPACE);
        await store.write(from, numberedRows(rows));
        const commits = Math.ceil(rows / 8);
        engine.interruptCommit(moment === "first" ? 1 : commits, () => store.delete(from));
        await assert.rejects(store.copy(from, to), isUnavailable);
      });
    }
  }

  it("are whole in a copy that ended before the delete", async () => {
    const engine = new InterruptedEngine();
    const store = new RowContentStore(engine, SPACE);
    await store.write(from, numberedRows(21));
    await store.copy(from, to);
    await store.delete(from);
    let row = 0;
    for await (const part of store.read(to, 0, 21 * rowBytes)) assert.equal(part[0], row++);
    assert.equal(row, 21);
  });

  it("can be neither copied nor read when only the first rows have been deleted", async () => {
    const engine = new InterruptedEngine();
    const store = new RowContentStore(engine, SPACE);
    await store.write(from, numberedRows(300));
    let whenHalfGone: () => void = () => {};
    const halfGone = new Promise<void>((resolve) => {
      whenHalfGone = resolve;
    });
    let goOn: () => void = () => {};
    const resumed = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    engine.interruptCommit(2, () => {
      whenHalfGone();
      return resumed;
    });
    const deleting = store.delete(from);
    await halfGone;
    await assert.rejects(store.copy(from, to), isUnavailable);
    await assert.rejects(async () => {
      for await (const part of store.read(from, 10 * rowBytes, 12 * rowBytes)) {
        assert.fail(`Row ${part[0]} was read as row 10.`);
      }
    }, isUnavailable);
    goOn();
    await deleting;
  });
});

async function* numberedRows(count: number): AsyncGenerator<Uint8Array> {
  for (let row = 0; row < count; row++) yield Buffer.alloc(rowBytes, row % 256);
}

/** Makes each commit take a while. */
class CountingEngine extends MemoryEngine {
  /** The number of puts of each commit. */
  readonly puts: number[] = [];
  atOnceMax = 0;
  #atOnce = 0;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    this.puts.push(write.puts.length);
    this.atOnceMax = Math.max(this.atOnceMax, ++this.#atOnce);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    this.#atOnce--;
    return super.commit(write);
  }
}

/** Runs something before one of the next commits. */
class InterruptedEngine extends MemoryEngine {
  #commitsUntil = 0;
  #interrupt: () => Promise<void> = async () => {};

  /** @param nth 1 for the next commit */
  interruptCommit(nth: number, interrupt: () => Promise<void>): void {
    this.#commitsUntil = nth;
    this.#interrupt = interrupt;
  }

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    if (--this.#commitsUntil === 0) await this.#interrupt();
    return super.commit(write);
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof EngineError && error.code === "Unavailable";
}
