import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  COMMIT_KEYS_MAX,
  type Engine,
  type KeyRange,
  type ScanEnd,
  type Visit,
} from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { blobPartition } from "./blob-keys.ts";
import { type BlobPage, type BlobPageRequest, readBlobPage } from "./blob-page.ts";
import { type CommittedBlob, encodeRecord } from "./blob-record.ts";

const partition = blobPartition(0, 7);
const BLOB: CommittedBlob = {
  type: "BlockBlob",
  size: 0,
  content: { in: "nowhere" },
  modified: 1,
  created: 1,
  properties: {},
  metadata: [],
};

describe("A page of blobs", () => {
  it("is in the order of UTF-8 bytes, which is the order of code points", async () => {
    const names = ["\ufffd", "z", "\u{10000}", "a", "Z", "ä", "a/b", "a!"];
    const engine = await engineWith(names);
    const expected = ["Z", "a", "a!", "a/b", "z", "ä", "\ufffd", "\u{10000}"];
    assert.deepEqual(await listAll(engine, {}), expected);
  });

  it("equals a plain list of names for random names, prefixes, delimiters and page sizes", async () => {
    const text = fc.string({
      unit: fc.constantFrom("a", "b", "/", "é", "\u{1f600}"),
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(text.filter(Boolean), { maxLength: 40 }),
        text,
        fc.constantFrom("", "/", "a/", "b"),
        fc.integer({ min: 1, max: 5 }),
        async (names, prefix, delimiter, max) => {
          const engine = await engineWith(names);
          const found = await listAll(engine, { prefix, delimiter, max });
          assert.deepEqual(found, plainList(names, prefix, delimiter));
        },
      ),
      { numRuns: 300 },
    );
  });

  it("lists 100,000 blobs in folders correctly at any page size", async () => {
    const digits = (n: number) => String(n).padStart(3, "0");
    const names = Array.from(
      { length: 100_000 },
      (_, i) => `log/${digits(i % 100)}/${digits(Math.floor(i / 100))}.log`,
    );
    const engine = await engineWith(names);
    assert.deepEqual(await listAll(engine, {}), names.toSorted());
    const folders = Array.from({ length: 100 }, (_, i) => `log/${digits(i)}/`);
    for (const max of [1, 2, 5000]) {
      const asked = { delimiter: "/", max };
      assert.deepEqual(await listAll(engine, asked), ["log/"]);
      assert.deepEqual(await listAll(engine, { ...asked, prefix: "log/" }), folders);
      const inFolder = await listAll(engine, { ...asked, prefix: "log/042/" });
      assert.equal(inFolder.length, 1000, `${max} at a time`);
    }
  });

  it("does not read the blobs under a common prefix", async () => {
    const names = ["a/", "b/", "c/"].flatMap((folder) =>
      Array.from({ length: 3000 }, (_, i) => `${folder}${i}`),
    );
    const engine = new CountingEngine();
    await fill(engine, [...names, "d"], "committed");
    engine.visited = 0;
    assert.deepEqual(await listAll(engine, { delimiter: "/" }), ["a/", "b/", "c/", "d"]);
    assert.equal(engine.visited, 4);
  });

  it("ends at its maximum of bytes, but not before its first entry", async () => {
    const names = Array.from({ length: 50 }, (_, i) => `${"long".repeat(20)}/${i}`);
    const engine = await engineWith(names);
    for (const bytesMax of [1, 100, 1000, 1_000_000]) {
      assert.deepEqual(await listAll(engine, { bytesMax }), names.toSorted());
      const { length } = (await page(engine, { bytesMax })).entries;
      assert.ok(length === 1 || length * 80 < bytesMax, `${length} entries`);
    }
    const folders = { bytesMax: 100, delimiter: "/" };
    assert.equal((await page(engine, folders)).next, undefined);
  });

  it("contains uncommitted blobs and their prefixes only if they are requested", async () => {
    const engine = await engineWith(["b"]);
    await fill(engine, ["a", "c/1", "d/1"], "uncommitted");
    await fill(engine, ["d/2"], "committed");
    assert.deepEqual(await listAll(engine, { delimiter: "/" }), ["b", "d/"]);
    const all = await listAll(engine, { delimiter: "/", withUncommitted: true });
    assert.deepEqual(all, ["a", "b", "c/", "d/"]);
  });

  it("repeats and skips no blob if others are added between pages", async () => {
    const engine = await engineWith(["b", "d", "f", "h"]);
    const first = await page(engine, { max: 2 });
    await fill(engine, ["a", "c", "e"], "committed");
    const rest = await page(engine, { max: 9, from: first.next! });
    assert.deepEqual([...namesOf(first), ...namesOf(rest)], ["b", "d", "f", "h"]);
  });
});

class CountingEngine extends MemoryEngine {
  visited = 0;

  override scan(range: KeyRange, visit: Visit): ScanEnd | Promise<ScanEnd> {
    return super.scan(range, (entry) => {
      this.visited++;
      return visit(entry);
    });
  }
}

async function engineWith(names: readonly string[]): Promise<MemoryEngine> {
  const engine = new MemoryEngine();
  await fill(engine, names, "committed");
  return engine;
}

async function fill(
  engine: Engine,
  names: readonly string[],
  kind: "committed" | "uncommitted",
): Promise<void> {
  const record = kind === "committed" ? { blob: BLOB } : { draft: { id: "d", blockIdBytes: 1 } };
  const value = encodeRecord(record);
  for (let at = 0; at < names.length; at += COMMIT_KEYS_MAX) {
    const some = names.slice(at, at + COMMIT_KEYS_MAX);
    await engine.commit({
      version: engine.nextVersion(),
      checks: [],
      puts: some.map((name) => ({ key: { partition, sort: Buffer.from(name) }, value })),
      deletes: [],
    });
  }
}

function page(engine: Engine, asked: Partial<BlobPageRequest>): Promise<BlobPage> {
  return readBlobPage(engine, {
    partition,
    prefix: "",
    delimiter: "",
    from: new Uint8Array(0),
    max: 5000,
    withUncommitted: false,
    ...asked,
  });
}

async function listAll(engine: Engine, asked: Partial<BlobPageRequest>): Promise<string[]> {
  const found: string[] = [];
  for (let from: Uint8Array | undefined = new Uint8Array(0); from; ) {
    const read: BlobPage = await page(engine, { ...asked, from });
    found.push(...namesOf(read));
    from = read.next;
  }
  return found;
}

function namesOf({ entries }: BlobPage): string[] {
  return entries.map((entry) => ("name" in entry ? entry.name : entry.commonPrefix));
}

function plainList(names: readonly string[], prefix: string, delimiter: string): string[] {
  const shown = names
    .filter((name) => name.startsWith(prefix))
    .map((name) => {
      const at = delimiter === "" ? -1 : name.indexOf(delimiter, prefix.length);
      return at < 0 ? name : name.slice(0, at + delimiter.length);
    });
  return [...new Set(shown)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}
