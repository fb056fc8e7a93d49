import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BlobLab } from "./blob/test-blob-lab.ts";
import { CONTENTS_FOLDER, FileContentStore } from "./content/file-content-store.ts";
import { key, put, scanAll } from "./engine/conformance/steps.ts";
import { EngineError } from "./engine/engine.ts";
import { type LmdbEngine, openLmdbEngine } from "./engine/lmdb/lmdb-engine.ts";
import { Scrub, type ScrubOptions } from "./scrub.ts";
import { verifyAll } from "./verify.ts";

const DAY_MS = 86_400_000;
const marks = Array.from({ length: 40 }, (_, i) => `value number ${i};`);

describe("The scrub", () => {
  it("reads everything once a week, at its rate, and reports what is damaged", () =>
    withData(async (path) => {
      damage(join(path, "data.mdb"), "value number 17;");
      const lab = await openLab(path);
      await lab.scrub.run();
      assert.equal(lab.scrub.report().endedAt, undefined, "It began before its time.");
      lab.clock.at += 700_000;
      await lab.scrub.run();
      assert.deepEqual(lab.damaged(), ["p/17"]);
      const report = lab.scrub.report();
      assert.deepEqual([report.endedAt, report.damaged], [lab.clock.at, 1]);
      // Pauses add up to what its rate allows.
      assert.ok(Math.abs(lab.waited() - report.bytes / 1000) < 1100, `${lab.waited()} ms`);
      lab.clock.at += 6 * DAY_MS;
      await lab.scrub.run();
      assert.equal(lab.damaged().length, 1, "It began again within the week.");
      await put(lab.engine, key("p", "17"), "a new value replaces what is damaged");
      lab.clock.at += DAY_MS;
      await lab.scrub.run();
      assert.deepEqual(lab.scrub.report().damaged, 0);
      await lab.close();
    }));

  it("goes on where it was after a restart, and only one process works", () =>
    withData(async (path) => {
      const first = await openLab(path);
      first.clock.at += 700_000;
      // Ends at its second pause, as a process that is closed does.
      first.afterWaits(2, () => void first.scrub.close());
      await first.scrub.run();
      const read = first.scrub.report().bytes;
      const other = new Scrub({ ...first.options, clock: first.clock, notBeforeMs: 0 });
      await other.run();
      assert.equal(other.report().endedAt, undefined, "It did not leave the work to the first.");
      await first.close();

      const second = await openLab(path, { notBeforeMs: 0 });
      second.clock.at = first.clock.at + 120_000;
      await second.scrub.run();
      assert.equal(second.scrub.report().endedAt, second.clock.at);
      assert.ok(second.scrub.report().bytes >= read);
      await second.close();
    }));

  it("gives the values of storage format 1 their checksums, and leaves their versions", async () => {
    const path = mkdtempSync(join(tmpdir(), "rowhouse-scrub-"));
    const kept = fileURLToPath(new URL("../../tests/upgrade/format-1", import.meta.url));
    cpSync(kept, path, { recursive: true });
    const lab = await openLab(path, { notBeforeMs: 0 });
    const before = await scanAll(lab.engine);
    assert.equal(lab.engine.lacksChecksums, true);
    await lab.scrub.run();
    assert.deepEqual([lab.engine.lacksChecksums, lab.engine.meta().lacksChecksums], [false, false]);
    const after = await scanAll(lab.engine);
    // All but the scrub's own state is as it was.
    assert.deepEqual(
      after.filter(({ key: { partition, sort } }) => partition[0] !== 2 || sort[0] !== 2),
      before,
    );
    await lab.close();
    rmSync(path, { recursive: true });
  });
});

describe("Verification", () => {
  it("finds nothing in intact data", () =>
    withData(async (path) => {
      const engine = await openLmdbEngine({ path });
      const { damaged, entries } = await verifyAll(engine, undefined);
      assert.deepEqual([damaged, entries], [[], marks.length]);
      await engine.close();
    }));

  it("names damaged and missing contents by their blobs", async () => {
    const path = mkdtempSync(join(tmpdir(), "rowhouse-verify-"));
    const engine = await openLmdbEngine({ path });
    const contentStore = await FileContentStore.open(join(path, CONTENTS_FOLDER));
    const lab = await BlobLab.open({ engine, contentStore });
    await lab.must("PUT", "/docs?restype=container");
    for (const name of ["a", "b", "c"]) {
      const headers = { "x-ms-blob-type": "BlockBlob" };
      await lab.must("PUT", `/docs/${name}`, { headers, body: Buffer.alloc(200_000, name) });
    }
    await lab.close();
    const files = readdirSync(contentStore.path, { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map((each) => join(each.parentPath ?? each.path, each.name));
    const fileOf = (letter: string) =>
      files.find((file) => readFileSync(file, "latin1")[0] === letter)!;
    damage(fileOf("a"), "aaaa");
    rmSync(fileOf("b"));
    const { damaged, contents: intact } = await verifyAll(engine, contentStore);
    assert.equal(damaged.length, 2);
    assert.match(damaged[0]!, /^content \w{16} of blob "a" of container docs of account \w+$/);
    assert.match(damaged[1]!, /^content \w{16} of blob "b" of container docs .*: missing$/);
    assert.equal(intact, 1);
    await engine.close();
    rmSync(path, { recursive: true });
  });
});

async function withData(test: (path: string) => Promise<void>): Promise<void> {
  const path = mkdtempSync(join(tmpdir(), "rowhouse-scrub-"));
  const engine = await openLmdbEngine({ path });
  const filling = "x".repeat(100_000);
  const version = engine.nextVersion();
  const puts = marks.map((mark, i) => ({
    key: key("p", `${i}`),
    value: Buffer.from(mark + filling),
  }));
  await engine.commit({ version, checks: [], puts, deletes: [] });
  await engine.close();
  await test(path);
  rmSync(path, { recursive: true });
}

/** Flips a bit behind the first place where the file contains the text. */
function damage(file: string, text: string): void {
  const bytes = readFileSync(file);
  const at = bytes.indexOf(text) + text.length + 100;
  bytes[at] = bytes[at]! ^ 1;
  writeFileSync(file, bytes);
}

async function openLab(path: string, more: Partial<ScrubOptions> = {}) {
  const engine: LmdbEngine = await openLmdbEngine({ path });
  const clock = { at: Date.now(), now: () => clock.at };
  const errors: unknown[] = [];
  let waits = 0;
  let waited = 0;
  let afterWaits = { count: Number.POSITIVE_INFINITY, act: () => {} };
  const options: ScrubOptions = {
    engine,
    contentStore: async () => undefined,
    clock,
    onError: (error) => errors.push(error),
    rate: 1_000_000,
    async wait(milliseconds) {
      waited += milliseconds;
      if (++waits >= afterWaits.count) afterWaits.act();
    },
    ...more,
  };
  const scrub = new Scrub(options);
  return {
    engine,
    clock,
    options,
    scrub,
    waited: () => waited,
    afterWaits: (count: number, act: () => void) => {
      afterWaits = { count, act };
    },
    damaged: () =>
      errors.map((error) => {
        assert.ok(error instanceof EngineError && error.key, String(error));
        return `${Buffer.from(error.key.partition)}/${Buffer.from(error.key.sort)}`;
      }),
    async close() {
      await scrub.close();
      await engine.close();
    },
  };
}
