import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
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
 * them, through a descriptor that flushes each write itself.
 *
 * Where `strace` works, the order of the system calls is proven. Everywhere, the test checks that the store is
 * open in the mode whose commits work that way: no flag that skips a flush is set.
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

if (spawnSync("strace", ["-o", "/dev/null", "true"]).status === 0) {
  it("The embedded engine flushes the pages of a commit, then the page that publishes them, then acknowledges", async () => {
    await withFolder(async (path) => {
      const calls = traceCalls(path);
      const dataFiles = openedAs(calls, "data.mdb", (flags) => !flags.includes("O_DSYNC"));
      const flushingFiles = openedAs(calls, "data.mdb", (flags) => flags.includes("O_DSYNC"));
      let acknowledged = 0;
      for (const [index, call] of calls.entries()) {
        const name = /^write\(1, "acknowledged (\d+)\\n"/.exec(call.begun)?.[1];
        if (name === undefined) continue;
        acknowledged++;
        const begin = calls.findIndex((each) =>
          each.begun.startsWith(`write(1, "begin ${name}\\n"`),
        );
        const done = calls.slice(begin, index).filter((each) => each.endedAt < call.begunAt);
        const pages = lastCall(done, /^(pwrite64|pwritev|pwritev2|writev|write)\(/, dataFiles);
        const flush = lastCall(done, /^(fdatasync|fsync)\(/, dataFiles);
        const shown = lastCall(done, /^pwrite64\(/, flushingFiles);
        assert.ok(pages.endedAt < flush.begunAt, `Pages of ${name} were written after the flush.`);
        assert.ok(flush.endedAt < shown.begunAt, `Commit ${name} was shown before the flush.`);
      }
      assert.equal(acknowledged, 26);
    });
  });
}

interface Call {
  /** The call as strace prints it, arguments first; times are line numbers of the trace. */
  begun: string;
  begunAt: number;
  endedAt: number;
  result: string;
}

/** The calls of all threads, ordered by when they began. */
function traceCalls(path: string): Call[] {
  const trace = join(path, "trace");
  const program = join(import.meta.dirname, "flush-order-process.ts");
  const traced = "trace=openat,open,write,writev,pwrite64,pwritev,pwritev2,fdatasync,fsync,close";
  const node = [process.execPath, "--conditions=rowhouse-source", "--import", "tsx", program];
  const { status, stderr } = spawnSync(
    "strace",
    ["-f", "-qq", "-s", "60", "-e", traced, "-o", trace, ...node, join(path, "data")],
    { encoding: "utf8" },
  );
  assert.equal(status, 0, stderr);

  const calls: Call[] = [];
  const unfinished = new Map<string, Call>();
  for (const [at, line] of readFileSync(trace, "utf8").split("\n").entries()) {
    const [, thread = "", text = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(text);
    const call = resumed
      ? unfinished.get(thread)
      : { begun: text, begunAt: at, endedAt: at, result: "" };
    if (call === undefined) continue;
    call.endedAt = text.endsWith("<unfinished ...>") ? Number.POSITIVE_INFINITY : at;
    call.result = /= (-?\d+)/.exec(text.slice(text.lastIndexOf(")")))?.[1] ?? "";
    if (!resumed) calls.push(call);
    unfinished.set(thread, call);
  }
  return calls;
}

/** Descriptors that the file was opened as, with flags that satisfy `isWanted`. */
function openedAs(
  calls: readonly Call[],
  file: string,
  isWanted: (flags: string) => boolean,
): Set<string> {
  const opened = calls.filter(({ begun }) => {
    return begun.startsWith("open") && begun.includes(`/${file}"`) && isWanted(begun);
  });
  assert.ok(opened.length > 0, `${file} was never opened that way.`);
  return new Set(opened.map(({ result }) => result));
}

function lastCall(calls: readonly Call[], name: RegExp, descriptors: ReadonlySet<string>): Call {
  const last = calls.findLast(({ begun, result }) => {
    const descriptor = /^\w+\((\d+)/.exec(begun)?.[1] ?? "";
    return name.test(begun) && descriptors.has(descriptor) && !result.startsWith("-");
  });
  assert.ok(last, `No ${name} on ${[...descriptors]} between begin and acknowledgement.`);
  return last;
}

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
