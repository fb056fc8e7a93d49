import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import {
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { key, mustCommit, put, scanAll } from "../conformance/steps.ts";
import { EngineError } from "../engine.ts";
import { EVERYTHING } from "../key-codec.ts";
import { PAGE_BYTES } from "./data-file.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";
import {
  type Reading,
  SAMPLES,
  sampleKey,
  sampleMark,
  sampleValue,
} from "./test-damaged-samples.ts";
import { isEngineError, newFolder } from "./test-engine.ts";

/** DAMAGES=500 tries more. */
const DAMAGES = Number(process.env.DAMAGES ?? 18);

describe("Damage to a data file", () => {
  let folder: string;
  let intact: string;
  let pages: number;

  before(async () => {
    folder = newFolder();
    intact = join(folder, "intact");
    const engine = await openLmdbEngine({ path: intact });
    const all = Array.from({ length: SAMPLES }, (_, i) => i);
    // In one commit, so that the file has no older copies of them.
    await mustCommit(engine, { puts: all.map((i) => [sampleKey(i), sampleValue(i)]) });
    await engine.close();
    pages = statSync(join(intact, "data.mdb")).size / PAGE_BYTES;
  });
  after(() => rmSync(folder, { recursive: true }));

  /** A copy of the intact folder with one change. */
  function damagedCopy(name: string, change: (bytes: Buffer) => void): string {
    const path = join(folder, name);
    mkdirSync(path);
    const bytes = readFileSync(join(intact, "data.mdb"));
    change(bytes);
    writeFileSync(join(path, "data.mdb"), bytes);
    return path;
  }

  it("gives no wrong answer, whichever bit is flipped", () => {
    const seed = Number(process.env.DAMAGE_SEED ?? randomInt(2 ** 31));
    const next = randomFrom(seed);
    const places = Array.from({ length: DAMAGES }, (_, i) => {
      // Every third in one of the two meta pages, or in what a page begins with.
      const page = i % 6 === 0 ? next(2) : 2 + next(pages - 2);
      const at = page * PAGE_BYTES + next(i % 6 === 0 ? 168 : i % 6 === 3 ? 64 : PAGE_BYTES);
      return { at, bit: 1 << next(8) };
    });
    const folders = places.map(({ at, bit }, i) =>
      damagedCopy(`flipped-${i}`, (bytes) => flip(bytes, at, bit)),
    );
    for (const [i, reading] of readEach(folders).entries()) {
      const { at, bit } = places[i]!;
      assert.deepEqual(
        reading?.wrong ?? [],
        [],
        `DAMAGE_SEED=${seed}: bit ${bit} of byte ${at % PAGE_BYTES} of page ${Math.floor(at / PAGE_BYTES)}`,
      );
    }
  });

  it("is noticed wherever it changes a key or a value", () => {
    // One of each length.
    const values = Array.from({ length: 5 }, (_, i) => i * 31);
    const folders = values.flatMap((i) => [
      damagedCopy(`value-${i}`, (bytes) => flip(bytes, bytes.indexOf(sampleMark(i)) + 40)),
      damagedCopy(`version-${i}`, (bytes) => flip(bytes, bytes.indexOf(sampleMark(i)) - 5)),
    ]);
    // The key stands before the version, except of values on overflow pages.
    const key = damagedCopy("key", (bytes) => flip(bytes, bytes.indexOf(sampleMark(31)) - 9));
    folders.push(key);
    for (const reading of readEach(folders)) {
      assert.deepEqual([reading?.isNoticed, reading?.wrong], [true, []]);
    }
  });

  it("is refused with a sentence when the file is cut off anywhere", async () => {
    const size = pages * PAGE_BYTES;
    for (const length of [size - 1, size - PAGE_BYTES, size >> 1, size >> 2, 3 * PAGE_BYTES]) {
      const path = join(folder, `cut-${length}`);
      cpSync(intact, path, { recursive: true });
      truncateSync(join(path, "data.mdb"), length);
      await assert.rejects(openLmdbEngine({ path }), {
        code: "Corrupt",
        message: /ends after \d+ bytes, before page \d+/,
      });
    }
  });

  it("in one value fails that value's reads, merges and scans, and names its key", async () => {
    const at = sampleKey(101);
    const mark = sampleMark(101);
    const path = damagedCopy("one", (bytes) => flip(bytes, bytes.indexOf(mark) + 20));
    const engine = await openLmdbEngine({ path });
    const isDamaged = (error: unknown) =>
      error instanceof EngineError &&
      error.code === "Corrupt" &&
      error.key !== undefined &&
      Buffer.compare(error.key.sort, at.sort) === 0;
    assert.throws(() => engine.get([sampleKey(100), at]), isDamaged);
    await assert.rejects(
      engine.update(at, (current) => current ?? new Uint8Array(1)),
      isDamaged,
    );
    await assert.rejects(async () => engine.scan(EVERYTHING, () => true), isDamaged);
    // Its neighbours are as they were, commits go on, and a new value is intact.
    assert.equal(engine.get([sampleKey(100)]).length, 1);
    await put(engine, key("other", "x"), "y");
    await put(engine, at, sampleValue(101));
    assert.equal(await engine.scan(EVERYTHING, () => true), "complete");
    await engine.close();
  });

  it("does not spread into a copy, which reports it", async () => {
    const at = sampleKey(7);
    const mark = sampleMark(7);
    const path = damagedCopy("to-copy", (bytes) => flip(bytes, bytes.indexOf(mark) + 20));
    const engine = await openLmdbEngine({ path });
    const damaged: EngineError[] = [];
    let copied = 0;
    const target = join(folder, "copy");
    await engine.copyTo(target, {
      onCopied: () => copied++,
      onDamaged: (error) => damaged.push(error),
    });
    await engine.close();
    assert.equal(copied, SAMPLES - 1);
    assert.deepEqual(
      damaged.map(({ key: found }) => found && Buffer.from(found.sort)),
      [Buffer.from(at.sort)],
    );
    const copy = await openLmdbEngine({ path: target });
    assert.deepEqual(copy.get([at]), [undefined]);
    await copy.close();
  });
});

describe("Data of storage format 1", () => {
  it("is read without checksums, and gets them as it is written", async () => {
    const path = newFolder();
    const kept = fileURLToPath(new URL("../../../../tests/upgrade/format-1", import.meta.url));
    cpSync(kept, path, { recursive: true });
    const engine = await openLmdbEngine({ path });
    assert.deepEqual([engine.meta().format, engine.meta().lacksChecksums], [2, true]);
    const before = await scanAll(engine);
    assert.ok(before.length > 10);
    const one = before.find(({ value }) => value.length > 20)!;
    assert.deepEqual(engine.get([one.key])[0]?.value, Buffer.from(one.value));
    const rewritten = Buffer.from("what is written now has a checksum");
    await put(engine, one.key, rewritten);
    await engine.close();
    const file = join(path, "data.mdb");
    const bytes = readFileSync(file);
    flip(bytes, bytes.indexOf(rewritten) + 3);
    writeFileSync(file, bytes);
    const again = await openLmdbEngine({ path });
    assert.throws(() => again.get([one.key]), isEngineError("Corrupt"));
    await again.close();
    rmSync(path, { recursive: true });
  });
});

function flip(bytes: Buffer, at: number, bit = 1): void {
  bytes[at] = bytes[at]! ^ bit;
}

/** Undefined where reading ended the process. */
function readEach(folders: readonly string[]): (Reading | undefined)[] {
  const readings: (Reading | undefined)[] = [];
  while (readings.length < folders.length) {
    const file = fileURLToPath(new URL("test-damaged-process.ts", import.meta.url));
    const { stdout, stderr, signal, status } = spawnSync(
      process.execPath,
      [
        ...process.execArgv.filter((each) => !each.startsWith("--test")),
        file,
        ...folders.slice(readings.length),
      ],
      { encoding: "utf8" },
    );
    for (const line of stdout.split("\n").filter(Boolean)) readings.push(JSON.parse(line));
    if (readings.length === folders.length) break;
    assert.ok(signal !== null || status === 134, `The reader ended with ${status}: ${stderr}`);
    readings.push(undefined);
  }
  return readings;
}

/** Whole numbers below a limit, which the seed determines. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed || 1;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}
