import assert from "node:assert/strict";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertAbove, key, mustCommit, patternBytes } from "../conformance/steps.ts";
import type { Entry, Key } from "../engine.ts";
import { compareKeys, copyKey } from "../key-codec.ts";
import { type LmdbEngine, openLmdbEngine } from "./lmdb-engine.ts";

const onLinux = process.platform === "linux";

describe("Walking the memory map", () => {
  it("is how scans read on Linux, unless walksMap is false", () =>
    withFolder(async (path) => {
      const walking = await openLmdbEngine({ path });
      assert.equal(walking.statistics().walksMap, onLinux);
      await walking.close();
      const calling = await openLmdbEngine({ path, walksMap: false });
      assert.equal(calling.statistics().walksMap, false);
      await calling.close();
    }));

  it("works for a folder with special characters in its name, and through a symbolic link", () =>
    withFolder(async (folder) => {
      const path = join(folder, "Daten für\\2026 (neu)");
      const link = join(folder, "link");
      symlinkSync(path, link);
      for (const name of [path, link]) {
        const engine = await openLmdbEngine({ path: name });
        assert.equal(engine.statistics().walksMap, onLinux);
        await engine.close();
      }
    }));

  it("reads the same ranges as the binding, for trees of all shapes", () =>
    withFolder(async (path) => {
      const seed = Math.floor(Math.random() * 2 ** 31);
      const random = new Random(seed);
      const walking = await openLmdbEngine({ path });
      const calling = await openLmdbEngine({ path, walksMap: false });
      try {
        const keys: Key[] = [];
        for (let round = 0; round < 12; round++) {
          await grow(walking, random, keys);
          for (let scans = 0; scans < 40; scans++) {
            const range = randomRange(random, keys);
            const expected = await entriesOf(calling, range);
            assert.deepEqual(await entriesOf(walking, range), expected, `seed ${seed}`);
          }
        }
        assertAbove((await entriesOf(walking, { start: key("", "") })).length, 500);
      } finally {
        await calling.close();
        await walking.close();
      }
    }));

  it("shows whole commits as soon as they are acknowledged, while others are being flushed", () =>
    withFolder(async (path) => {
      // The scan is in one piece even on a busy machine.
      const engine = await openLmdbEngine({ path, snapshotMsMax: Number.POSITIVE_INFINITY });
      const keys = Array.from({ length: 40 }, (_, index) => key("p", [index]));
      let acknowledged = 0;
      const writing = (async () => {
        for (let round = 1; round <= 60; round++) {
          const value = patternBytes(round * 100);
          await mustCommit(engine, { puts: keys.map((at) => [at, value] as const) });
          acknowledged = round;
        }
      })();
      while (acknowledged < 60) {
        const least = acknowledged;
        const lengths: number[] = [];
        await engine.scan({ start: key("", "") }, ({ value }) => lengths.push(value.length) > 0);
        const [first = 0] = lengths;
        assert.deepEqual(lengths, first === 0 ? [] : keys.map(() => first));
        assertAbove(first / 100, least - 1);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await writing;
      await engine.close();
    }));
});

/** Puts entries of all sizes, up to many overflow pages, and deletes some. */
async function grow(engine: LmdbEngine, random: Random, keys: Key[]): Promise<void> {
  const puts = new Map<string, readonly [Key, Uint8Array]>();
  for (let i = 0; i < 80; i++) {
    const at = randomKey(random);
    const size = random.below(10) === 0 ? random.below(60_000) : random.below(3000);
    puts.set(`${at.partition}/${at.sort}`, [at, patternBytes(size)]);
    keys.push(at);
  }
  await mustCommit(engine, { puts: [...puts.values()] });
  const deletes = Array.from({ length: 15 }, () => keys[random.below(keys.length)]!);
  await mustCommit(engine, { deletes: [...new Set(deletes)] });
}

function randomKey(random: Random): Key {
  const long = random.below(8) === 0 ? random.below(3000) : random.below(40);
  const bytes = (length: number) => Array.from({ length }, () => random.below(4));
  return key(bytes(random.below(6)), bytes(long));
}

function randomRange(random: Random, keys: readonly Key[]): { start: Key; end?: Key } {
  const one = random.below(2) === 0 ? randomKey(random) : keys[random.below(keys.length)]!;
  const other = random.below(2) === 0 ? randomKey(random) : keys[random.below(keys.length)]!;
  if (random.below(5) === 0) return { start: one };
  return compareKeys(one, other) < 0 ? { start: one, end: other } : { start: other, end: one };
}

async function entriesOf(engine: LmdbEngine, range: { start: Key; end?: Key }): Promise<Entry[]> {
  const entries: Entry[] = [];
  const visit = ({ key: at, value, version }: Entry) =>
    entries.push({ key: copyKey(at), value: Uint8Array.from(value), version }) > 0;
  for (let { start } = range; ; ) {
    const end = await engine.scan({ ...range, start }, visit);
    if (typeof end === "string") return entries;
    start = end.resumeAt;
  }
}

/** A random series, the same for the same seed. */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 1;
  }

  below(limit: number): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % limit;
  }
}

async function withFolder(test: (path: string) => Promise<void>): Promise<void> {
  const path = mkdtempSync(join(tmpdir(), "rowhouse-walk-"));
  try {
    await test(path);
  } finally {
    rmSync(path, { recursive: true });
  }
}
