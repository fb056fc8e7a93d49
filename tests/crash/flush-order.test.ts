import assert from "node:assert/strict";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import * as lmdb from "lmdb";

/*
 * A commit is acknowledged only after its pages were written and flushed, and then the page that publishes
 * them, through a descriptor that flushes each write itself. `power-loss.test.ts` proves it where `strace` works;
 * everywhere, no flag may be set that skips a flush.
 */

/** lmdb.h: MDB_NOSYNC, MDB_NOMETASYNC, MDB_WRITEMAP, MDB_MAPASYNC; lmdb-js: overlapping sync. */
const FLAGS_WITHOUT_FLUSH = 0x10000 | 0x40000 | 0x80000 | 0x100000 | 0x1000;
const O_DSYNC = 0o10000;

it("The embedded engine opens the store in the mode that flushes inside each commit", async () => {
  await withFolder(async (path) => {
    const engine = await openLmdbEngine({ path });
    // Opening it again in this process returns the same environment, with its flags.
    const same = lmdb.open({ path, noSubdir: false, overlappingSync: false, pageSize: 8192 });
    try {
      assert.equal(environmentFlags(same) & FLAGS_WITHOUT_FLUSH, 0);
      const modes = openModes(join(path, "data.mdb"));
      if (modes !== undefined)
        assert.notEqual(modes.reduce((all, mode) => all | mode, 0) & O_DSYNC, 0);
    } finally {
      await same.close();
      await engine.close();
    }
  });
});

function environmentFlags(store: object): number {
  const native: unknown = Reflect.get(lmdb, "nativeAddon");
  const environment: unknown = Reflect.get(store, "env");
  assert.ok(typeof native === "object" && native !== null, "lmdb-js has no native layer.");
  assert.ok(typeof environment === "object" && environment !== null, "A store has no env.");
  const getEnvFlags: unknown = Reflect.get(native, "getEnvFlags");
  assert.ok(typeof getEnvFlags === "function", "lmdb-js does not tell flags.");
  return getEnvFlags(Reflect.get(environment, "address"));
}

/** The flags of this process's descriptors of a file; undefined where /proc does not show them. */
function openModes(file: string): number[] | undefined {
  try {
    return readdirSync("/proc/self/fd")
      .filter((descriptor) => linkOf(descriptor) === file)
      .map((descriptor) => {
        const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8");
        return Number.parseInt(/flags:\s*([0-7]+)/.exec(info)?.[1] ?? "0", 8);
      });
  } catch {
    return undefined;
  }
}

function linkOf(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return "";
  }
}

async function withFolder(test: (path: string) => Promise<void>): Promise<void> {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "rowhouse-flush-")));
  try {
    await test(path);
  } finally {
    rmSync(path, { recursive: true });
  }
}
