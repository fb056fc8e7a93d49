import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError } from "../engine/engine.ts";
import type { ContentId, ContentStore } from "./content-store.ts";

/** A content store and how to open it. */
export interface ContentStoreUnderTest {
  readonly name: string;
  /** Opens a new, empty store. */
  open(): Promise<ContentStore>;
  /** Opens the contents that `closed` held when it was closed. Absent if the store keeps nothing. */
  reopen?(closed: ContentStore): Promise<ContentStore>;
  /** Removes what `closed` leaves behind. */
  discard?(closed: ContentStore): Promise<void>;
}

const A = "00000000001aaaaa";
const B = "00000000002aaaaa";
/** Longer than anything a store gathers or reads at once. */
const LARGE = 5 * 1_048_576 + 12_345;

/** Checks every promise `content-store.ts` makes. Each store's test file is one call of this. */
export function testContentStoreConformance(target: ContentStoreUnderTest): void {
  const test = (name: string, run: (store: ContentStore) => Promise<void>) =>
    it(name, async () => {
      const store = await target.open();
      try {
        await run(store);
      } finally {
        await store.close();
        await target.discard?.(store);
      }
    });

  describe(`${target.name} fulfills the content store contract`, () => {
    test("reads back contents of any length", async (store) => {
      for (const [i, length] of [0, 1, 131_071, 131_072, 131_073, LARGE].entries()) {
        const id = `0000000001${i}aaaaa`;
        const bytes = patterned(length);
        await store.write(id, inParts(bytes, 70_001));
        assert.ok((await readAll(store, id, 0, length)).equals(bytes), `${length} bytes`);
      }
    });

    test("reads any range of a content", async (store) => {
      const bytes = patterned(LARGE);
      await store.write(A, inParts(bytes, 65_536));
      const edges = [0, 1, 131_071, 131_072, 262_144, 1_048_576, LARGE - 1, LARGE];
      for (const start of edges) {
        for (const end of edges) {
          const expected = bytes.subarray(start, Math.max(start, end));
          assert.ok((await readAll(store, A, start, end)).equals(expected), `${start}-${end}`);
        }
      }
    });

    test("leaves a lent part unchanged until the next is requested, even when another reader runs", async (store) => {
      const bytes = patterned(LARGE);
      await store.write(A, inParts(bytes, 100_000));
      let at = 0;
      for await (const part of store.read(A, 0, LARGE)) {
        await readAll(store, A, 0, 600_000);
        assert.ok(bytes.subarray(at, at + part.length).equals(part), `from byte ${at}`);
        at += part.length;
      }
      assert.equal(at, LARGE);
    });

    test("no longer needs a part of its source when it requests the part after the next", async (store) => {
      for (const partBytes of [1000, 131_072, 262_144]) {
        const bytes = patterned(LARGE);
        await store.write(A, inLentParts(bytes, partBytes));
        assert.ok((await readAll(store, A, 0, LARGE)).equals(bytes), `parts of ${partBytes}`);
        await store.delete(A);
      }
    });

    test("holds no part of its source after the write has resolved", async (store) => {
      // One part each, which is also the last: it is lent until the end.
      for (const [i, length] of [5, 131_072, 131_073, LARGE].entries()) {
        const id = `0000000001${i}aaaaa`;
        const part = patterned(length);
        await store.write(id, inParts(part, length));
        part.fill(0xff);
        assert.ok((await readAll(store, id, 0, length)).equals(patterned(length)));
      }
    });

    test("reports Corrupt for a missing content and for a range beyond the end", async (store) => {
      await assertCorrupt(readAll(store, A, 0, 1));
      await store.write(A, inParts(patterned(10), 10));
      await assertCorrupt(readAll(store, A, 0, 11));
      await assertCorrupt(store.copy(B, "00000000003aaaaa"));
    });

    test("deletes a content whose reader stopped early", async (store) => {
      await store.write(A, inParts(patterned(LARGE), 100_000));
      for await (const part of store.read(A, 0, LARGE)) {
        assert.ok(part.length > 0);
        break;
      }
      await store.delete(A);
      await assertCorrupt(readAll(store, A, 0, 1));
    });

    test("deletes a content once or twice, and leaves the others", async (store) => {
      await store.write(A, inParts(patterned(LARGE), 100_000));
      await store.write(B, inParts(patterned(5), 5));
      await store.delete(A);
      await store.delete(A);
      await assertCorrupt(readAll(store, A, 0, 1));
      assert.deepEqual(await ids(store), [B]);
    });

    test("copies a content so that original and copy can be deleted separately", async (store) => {
      for (const length of [0, 3, LARGE]) {
        const bytes = patterned(length);
        await store.write(A, inParts(bytes, 100_000));
        await store.copy(A, B);
        await store.delete(A);
        assert.ok((await readAll(store, B, 0, length)).equals(bytes));
        await store.delete(B);
        assert.deepEqual(await ids(store), []);
      }
    });

    test("fails with the error of its source, and delete removes what was written", async (store) => {
      await assert.rejects(store.write(A, breaking(patterned(LARGE), LARGE - 1)), /broke off/);
      await assert.rejects(store.write(B, breaking(patterned(10), 0)), /broke off/);
      await store.delete(A);
      await store.delete(B);
      assert.deepEqual(await ids(store), []);
    });

    test("writes, reads and deletes many contents concurrently", async (store) => {
      const all = Array.from({ length: 20 }, (_, i) => `000000000${10 + i}aaaaa`);
      await Promise.all(all.map((id, i) => store.write(id, inParts(patterned(i * 50_000), 9999))));
      assert.deepEqual(await ids(store), all);
      await Promise.all(
        all.map(async (id, i) => {
          const bytes = await readAll(store, id, 0, i * 50_000);
          assert.ok(bytes.equals(patterned(i * 50_000)));
        }),
      );
      await Promise.all(all.map((id) => store.delete(id)));
      assert.deepEqual(await ids(store), []);
    });

    const { reopen } = target;
    if (reopen) {
      it("keeps contents across a restart", async () => {
        const before = await target.open();
        await before.write(A, inParts(patterned(LARGE), 100_000));
        await before.close();
        const store = await reopen(before);
        assert.ok((await readAll(store, A, 0, LARGE)).equals(patterned(LARGE)));
        await store.close();
        await target.discard?.(store);
      });
    }
  });
}

/** No two rows are alike, nor two parts of an upload, so that a swap shows. */
function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = (i * 31) ^ (i >>> 9) ^ ((i >>> 17) * 101);
  return bytes;
}

async function* inParts(bytes: Uint8Array, partBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += partBytes) yield bytes.subarray(at, at + partBytes);
}

/** Two buffers in turn. */
async function* inLentParts(bytes: Uint8Array, partBytes: number): AsyncGenerator<Uint8Array> {
  let [buffer, other] = [Buffer.alloc(partBytes), Buffer.alloc(partBytes)];
  for await (const part of inParts(bytes, partBytes)) {
    buffer.set(part);
    yield buffer.subarray(0, part.length);
    [buffer, other] = [other, buffer];
  }
}

async function* breaking(bytes: Uint8Array, after: number): AsyncGenerator<Uint8Array> {
  yield* inParts(bytes.subarray(0, after), 100_000);
  throw new Error("The source broke off.");
}

async function readAll(
  store: ContentStore,
  id: ContentId,
  start: number,
  end: number,
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of store.read(id, start, end)) parts.push(Uint8Array.from(part));
  return Buffer.concat(parts);
}

async function ids(store: ContentStore): Promise<ContentId[]> {
  const found: ContentId[] = [];
  for await (const id of store.list()) found.push(id);
  return found.sort();
}

async function assertCorrupt(work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, (error) => error instanceof EngineError && error.code === "Corrupt");
}
