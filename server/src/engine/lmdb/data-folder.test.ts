import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { open } from "lmdb";
import {
  assertAbove,
  getText,
  key,
  mustCommit,
  patternBytes,
  put,
  scanAll,
} from "../conformance/steps.ts";
import { hasMounts } from "../test-mounts.ts";
import { freeBytesOf, noSpaceLeft, PAGE_BYTES, unusedBytes } from "./data-file.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";
import { FORMAT } from "./meta-record.ts";
import { isEngineError, newFolder, withEngine } from "./test-engine.ts";

const a = key("p", "a");

describe("The data folder", () => {
  it("is created with its parents, readable by the owner only, even if its name contains a dot", () =>
    withEngine(async (engine) => {
      const path = join(engine.path, "new", "data.d");
      const nested = await openLmdbEngine({ path });
      await nested.close();
      assert.equal(statSync(join(path, "data.mdb")).mode & 0o077, 0);
    }));

  it("grows beyond the map size it was opened with", () =>
    withEngine(
      async (engine) => {
        for (let index = 0; index < 8; index++) {
          await put(engine, key("p", [index]), patternBytes(1 << 20));
        }
        assert.equal((await scanAll(engine)).length, 8);
      },
      { mapSizeBytes: 1 << 20 },
    ));

  it("counts the pages that list free pages", () =>
    withEngine(async (engine) => {
      assert.equal(engine.statistics().freeListPages, 0);
      const all = Array.from({ length: 8000 }, (_, i) => key("p", `${(i * 7919) % 8000}`));
      for (let from = 0; from < all.length; from += 2000) {
        const some = all.slice(from, from + 2000);
        await mustCommit(engine, { puts: some.map((each) => [each, "x".repeat(3000)]) });
      }
      assertAbove(engine.statistics().freeListPages, 0);
    }));

  it("records its format and the versions reserved", () =>
    withEngine(async (engine) => {
      const version = await put(engine, a, "1");
      assert.equal(engine.meta().format, FORMAT);
      assertAbove(engine.meta().versionsReserved, version - 1);
    }));

  it("is refused when its format is unknown, when its record is damaged, and when it is another program's", async () => {
    const damages: [record: Uint8Array, code: "Unavailable" | "Corrupt"][] = [
      [metaRecord("ROWHOUSE", FORMAT + 1), "Unavailable"],
      [metaRecord("ROWHOUSE", 0), "Corrupt"],
      [metaRecord("HOUSEROW", FORMAT), "Corrupt"],
      [Buffer.from("ROWHOUSE"), "Corrupt"],
    ];
    for (const [record, code] of damages) {
      const path = newFolder();
      await overwrite(path, Buffer.from("\0\0meta"), record);
      await assert.rejects(openLmdbEngine({ path }), isEngineError(code));
      rmSync(path, { recursive: true });
    }
    const path = newFolder();
    await overwrite(path, Buffer.from("somebody's key"), Buffer.from("somebody's value"));
    await assert.rejects(openLmdbEngine({ path }), isEngineError("Unavailable"));
    rmSync(path, { recursive: true });
  });

  it("is refused when it cannot be created", async () => {
    await assert.rejects(openLmdbEngine({ path: "/dev/null/data" }), isEngineError("Unavailable"));
  });

  it("is refused without a crash when its file is not an LMDB file", async () => {
    for (const content of [Buffer.alloc(100_000), Buffer.from("PGDMP"), Buffer.alloc(8192, 0xde)]) {
      const path = newFolder();
      writeFileSync(join(path, "data.mdb"), content);
      await assert.rejects(openLmdbEngine({ path }), {
        code: "Corrupt",
        message: /is not an LMDB/,
      });
      rmSync(path, { recursive: true });
    }
  });

  it("is refused without a crash when its file is cut off before its root", async () => {
    const path = newFolder();
    const engine = await openLmdbEngine({ path });
    for (let index = 0; index < 50; index++) {
      await put(engine, key("p", `${index}`), "x".repeat(20_000));
    }
    await engine.close();
    const file = join(path, "data.mdb");
    // Cut ever shorter, beginning at the page with the root of the tree.
    for (const [length, complaint] of [
      [3 * 8192, /ends after 24576 bytes/],
      [2 * 8192, /ends after 16384 bytes/],
      [8192 + 100, /lacks its second meta page/],
      [100, /is not an LMDB/],
    ] as const) {
      truncateSync(file, length);
      await assert.rejects(openLmdbEngine({ path }), { code: "Corrupt", message: complaint });
    }
    truncateSync(file, 0);
    await (await openLmdbEngine({ path })).close();
    rmSync(path, { recursive: true });
  });

  if (hasMounts()) {
    it("is refused without a crash when its disk has too little space to start", () => {
      const path = newFolder();
      const why = "the disk has 524288 bytes free";
      runLimited(mounted(path, "512k"), "test-first-open-process.ts", path, why);
      rmSync(path, { recursive: true });
    });
  }

  it("is refused without a crash when a limit on file size leaves too little to start", () => {
    const path = newFolder();
    const why = "EFBIG: file too large, write$";
    runLimited(fileLimit(64), "test-first-open-process.ts", path, why);
    assert.deepEqual(readdirSync(path), []);
    rmSync(path, { recursive: true });
  });

  if (process.platform === "linux") {
    it("is refused with the system's reason when no file can be created in it", async () => {
      const why = /^open \/sys: E[A-Z]+: .*, open '\/sys\/trial-/;
      await assert.rejects(openLmdbEngine({ path: "/sys" }), { code: "Unavailable", message: why });
    });

    it("is refused without a crash when the address space is too small to map it", () => {
      const path = newFolder();
      const why = "this process may use 512000000000 bytes of address space";
      runLimited("ulimit -v 500000000", "test-first-open-process.ts", path, why);
      rmSync(path, { recursive: true });
    });
  }

  it("has its whole table of readers allocated on the disk, so that readers need no space later", () =>
    withEngine(async ({ path }) => {
      const { size, blocks } = statSync(join(path, "lock.mdb"));
      assert.ok(blocks * 512 >= size, `${blocks} blocks hold ${size} bytes`);
    }));

  it("refuses commits and still reads after its folder is moved away", async () => {
    const path = newFolder();
    let now = Date.UTC(2026, 0, 1);
    const engine = await openLmdbEngine({ path, clock: { now: () => now } });
    await put(engine, a, "kept");
    assert.equal(engine.refusal(), undefined);

    renameSync(path, `${path}-moved`);
    now += 1000;
    const gone = /^The data in .* was removed or replaced: nothing can be written until a restart/;
    await assert.rejects(put(engine, a, "lost"), { code: "Unavailable", message: gone });
    assert.equal(engine.refusal()?.untilRestart, true);
    assert.match(engine.refusal()?.reason ?? "", gone);
    assert.equal(await getText(engine, a), "kept");

    await engine.close();
    rmSync(`${path}-moved`, { recursive: true });
  });

  it("refuses commits and still reads when its path can no longer be resolved", async () => {
    const path = newFolder();
    let now = Date.UTC(2026, 0, 1);
    const engine = await openLmdbEngine({ path, clock: { now: () => now } });
    await put(engine, a, "kept");

    renameSync(path, `${path}-moved`);
    // A link to itself: following it fails with ELOOP.
    symlinkSync(path, path);
    now += 1000;
    await assert.rejects(put(engine, a, "lost"), { code: "Unavailable", message: /was removed/ });
    assert.equal(engine.refusal()?.untilRestart, true);
    assert.equal(await getText(engine, a), "kept");

    await engine.close();
    rmSync(path);
    rmSync(`${path}-moved`, { recursive: true });
  });

  it("refuses commits until it is opened again after its lock file is removed", async () => {
    const path = newFolder();
    let now = Date.UTC(2026, 0, 1);
    const engine = await openLmdbEngine({ path, clock: { now: () => now } });
    await put(engine, a, "kept");
    rmSync(join(path, "lock.mdb"));
    now += 1000;
    await assert.rejects(put(engine, a, "lost"), { code: "Unavailable", message: /was removed/ });
    await engine.close();

    const opened = await openLmdbEngine({ path });
    assert.equal(await getText(opened, a), "kept");
    await put(opened, a, "later");
    await opened.close();
    rmSync(path, { recursive: true });
  });

  it("counts as full only when its file system reports its size and too little free space", async () => {
    assert.equal(freeBytesOf({ bavail: 0, blocks: 1000, bsize: 4096 }), 0);
    assert.equal(freeBytesOf({ bavail: 2, blocks: 1000, bsize: 4096 }), 8192);
    // A file system that does not report its size has no blocks at all.
    assert.equal(noSpaceLeft("/proc"), undefined);
    const path = newFolder();
    assert.equal(noSpaceLeft(path), undefined);
    rmSync(path, { recursive: true });
  });

  it("refuses whole commits that do not fit on the disk, and accepts those that do", () => {
    const path = newFolder();
    runLimited(fileLimit(4096), "test-full-disk-process.ts", path);
    rmSync(path, { recursive: true });
  });

  if (hasMounts()) {
    it("refuses a large commit on a full disk without attempting the write", () => {
      const path = newFolder();
      const { stderr } = runLimited(mounted(path, "6m"), "test-full-disk-process.ts", path);
      // The message that lmdb-js prints when a write fails.
      assert.doesNotMatch(stderr, /error/);
      rmSync(path, { recursive: true });
    });

    it("reserves the last space of its disk for commits that free some", () => {
      const path = newFolder();
      runLimited(mounted(path, "6m"), "test-filled-disk-process.ts", path);
      rmSync(path, { recursive: true });
    });
  }

  it("reports how much of its file can be reused", () =>
    withEngine(async (engine) => {
      const keys = Array.from({ length: 20 }, (_, index) => key("p", [index]));
      for (const at of keys) await put(engine, at, patternBytes(100_000));
      const before = unusedBytes(engine.path);
      await mustCommit(engine, { deletes: keys });
      // Values of 13 pages, and the one or two leaves that referred to them.
      const freed = (unusedBytes(engine.path) - before) / PAGE_BYTES;
      assert.ok(freed >= 20 * 13 && freed < 20 * 13 + 5, `${freed} pages`);
    }));
});

/** Mounts a disk of its own at this path. */
function mounted(path: string, size: string): string {
  const mount = `mount -t tmpfs -o size=${size} none ${path}`;
  return `exec unshare -rm sh -c '${mount} && exec "$0" "$@"' "$0" "$@"`;
}

/** To a writer a limit on file size, with its signal ignored, is a full disk. In blocks of half a kilobyte. */
function fileLimit(blocks: number): string {
  return `trap '' XFSZ; ulimit -f ${blocks}`;
}

/** The program checks its own expectations, and fails if they do not hold. */
function runLimited(limit: string, program: string, ...args: readonly string[]) {
  const node = [process.execPath, ...process.execArgv, join(import.meta.dirname, program)];
  const command = ["-c", `${limit}; exec "$0" "$@"`, ...node, ...args];
  const { status, stderr } = spawnSync("sh", command, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return { stderr };
}

function metaRecord(magic: string, format: number): Buffer {
  const record = Buffer.alloc(24);
  record.write(magic);
  record.writeUInt16BE(format, 8);
  return record;
}

/** Writes into the environment with lmdb-js directly. */
async function overwrite(path: string, at: Uint8Array, value: Uint8Array): Promise<void> {
  const options = { path, noSubdir: false, pageSize: 8192, overlappingSync: false } as const;
  const store = open<Uint8Array, Uint8Array>({
    ...options,
    useVersions: true,
    keyEncoding: "binary",
    encoding: "binary",
  });
  await store.put(at, value, 1);
  await store.close();
}
