import assert from "node:assert/strict";
import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { open } from "lmdb";
import { testEngineConformance } from "../conformance.ts";
import {
  absent,
  assertAbove,
  assertSameBytes,
  burn,
  bytes,
  commit,
  EMPTY_KEY,
  getText,
  key,
  mustCommit,
  patternBytes,
  put,
  scanAll,
  scanOnce,
  text,
} from "../conformance-steps.ts";
import { type Engine, EngineError } from "../engine.ts";
import { after, compareKeys } from "../key-codec.ts";
import { freeBytesOf, noSpaceLeft, PAGE_BYTES, unusedBytes } from "./data-file.ts";
import { LmdbEngine, type LmdbEngineOptions, openLmdbEngine } from "./lmdb-engine.ts";
import { FORMAT } from "./meta-record.ts";

for (const walksMap of [true, false]) {
  testEngineConformance({
    name: walksMap ? "LmdbEngine" : "LmdbEngine, scanning through the binding",
    open: ({ clock }) => openLmdbEngine({ path: newFolder(), clock, walksMap }),
    reopen: (closed, { clock }) => openLmdbEngine({ path: pathOf(closed), clock, walksMap }),
    discard: async (closed) => rmSync(pathOf(closed), { recursive: true }),
  });
}

const a = key("p", "a");

describe("group commit", () => {
  it("flushes once for all commits that wait", () =>
    withEngine(async (engine) => {
      const before = engine.statistics();
      const results = await Promise.all(
        Array.from({ length: 100 }, (_, index) => put(engine, key("p", `${index}`), "1")),
      );
      const after = engine.statistics();
      assert.equal(new Set(results).size, 100);
      assert.equal(after.flushes - before.flushes, 1);
      assert.equal(after.commits - before.commits, 100);
      assert.equal(after.groupCommitsMax, 100);
    }));

  it("shows each commit of a group what the ones before it did", () =>
    withEngine(async (engine) => {
      const results = await Promise.all([
        commit(engine, { checks: [absent(a)], puts: [[a, "first"]] }),
        commit(engine, { checks: [absent(a)], puts: [[a, "second"]] }),
        commit(engine, { deletes: [a] }),
        commit(engine, { checks: [absent(a)], puts: [[a, "third"]] }),
      ]);
      assert.deepEqual(
        results.map((result) => result.committed),
        [true, false, true, true],
      );
      assert.equal(engine.statistics().flushes, 1);
      assert.equal(await getText(engine, a), "third");
    }));

  it("takes updates of one key into the group they came with, each on top of the one before", () =>
    withEngine(async (engine) => {
      const appending = (more: string) => (current: Uint8Array | undefined) =>
        bytes((current ? text(current) : "") + more);
      await Promise.all([
        engine.update(a, appending("1")),
        put(engine, a, "put"),
        engine.update(a, appending("2")),
        engine.update(a, appending("3")),
      ]);
      assert.equal(engine.statistics().flushes, 1);
      assert.equal(await getText(engine, a), "put23");
    }));

  it("divides what is too large for one transaction", () =>
    withEngine(async (engine) => {
      const value = patternBytes(6 << 20);
      await Promise.all(
        Array.from({ length: 9 }, (_, index) => put(engine, key("p", `${index}`), value)),
      );
      assert.equal(engine.statistics().flushes, 3);
      assert.equal((await scanAll(engine)).length, 9);
    }));

  it("writes nothing of a group when applying one of its commits fails, and goes on", () =>
    withEngine(async (engine) => {
      let reads = 0;
      const failing = {
        key: key("p", "b"),
        get value(): Uint8Array {
          reads++;
          throw new Error("The value is gone.");
        },
      };
      const puts = [{ key: a, value: patternBytes(10) }, failing];
      const write = { version: engine.nextVersion(), checks: [], puts, deletes: [] };
      await assert.rejects(engine.commit(write), isEngineError("Unavailable"));
      assertAbove(reads, 0);
      assert.deepEqual(await scanAll(engine), []);
      await put(engine, a, "later");
      assert.equal(await getText(engine, a), "later");
    }));
});

describe("snapshots", () => {
  it("ends a scan at its time limit with the place to go on from", () =>
    withEngine(
      async (engine) => {
        const puts = Array.from({ length: 40 }, (_, index) => [key("p", [index]), "1"] as const);
        await mustCommit(engine, { puts });
        const slowly = () => {
          burn(1);
          return true;
        };
        const { entries, end } = await scanOnce(engine, { start: EMPTY_KEY }, slowly);
        assertAbove(40, entries.length);
        assert.ok(typeof end !== "string", `The scan ended ${end}.`);
        assert.equal(compareKeys(end.resumeAt, after(entries.at(-1)!.key)), 0);
        assert.equal((await scanAll(engine)).length, 40);
      },
      { snapshotMsMax: 0 },
    ));

  it("lets pages be used again however scans ended", () =>
    withEngine(async (engine) => {
      const value = patternBytes(50_000);
      for (let index = 0; index < 20; index++) await put(engine, key("p", [index]), value);
      const mistake = new Error("visit failed");
      for (let round = 0; round < 60; round++) {
        await scanOnce(engine, { start: EMPTY_KEY });
        await scanOnce(engine, { start: EMPTY_KEY }, () => false);
        const failing = async () =>
          engine.scan({ start: EMPTY_KEY }, () => {
            burn(0.5);
            throw mistake;
          });
        await assert.rejects(failing, (error) => error === mistake);
        const suspended = Array.from({ length: 5 }, () =>
          scanOnce(engine, { start: EMPTY_KEY }, () => {
            burn(0.3);
            return true;
          }),
        );
        await put(engine, key("p", [round % 20]), value);
        await Promise.all(suspended);
      }
      // 1 MB of entries; 60 rewrites of 50 KB would add 3 MB if nothing were used again.
      assert.equal(engine.statistics().scansOpen, 0);
      assert.ok(
        engine.statistics().fileBytes < 2_000_000,
        `${engine.statistics().fileBytes} bytes`,
      );
    }));

  it("are refused beyond as many as there is room for, as something that passes", () =>
    withEngine(
      async (engine) => {
        for (let index = 0; index < 40; index++) await put(engine, key("p", [index]), "1");
        const slowly = () => {
          burn(0.5);
          return true;
        };
        const scan = async () => scanOnce(engine, { start: EMPTY_KEY }, slowly);
        const scans = await Promise.allSettled(Array.from({ length: 6 }, scan));
        const refused = scans.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
        assertAbove(refused.length, 0);
        for (const error of refused) assert.ok(isEngineError("Unavailable")(error), `${error}`);
        assert.equal((await scanAll(engine)).length, 40);
      },
      { readersMax: 4 },
    ));

  it("lets pages be used again behind a read, though none follows it", () =>
    withEngine(async (engine) => {
      const value = patternBytes(50_000);
      for (let index = 0; index < 20; index++) await put(engine, key("p", [index]), value);
      engine.get([key("p", [0]), key("p", [1])]);
      engine.meta();
      for (let round = 0; round < 60; round++) await put(engine, key("p", [round % 20]), value);
      assert.ok(
        engine.statistics().fileBytes < 2_000_000,
        `${engine.statistics().fileBytes} bytes`,
      );
    }));

  it("begins and ends exactly behind the longest keys, whose successors are too long to store", () =>
    withEngine(async (engine) => {
      // Among them the one whose flat key is as long as LMDB takes.
      for (let sortBytes = 0; sortBytes <= 17; sortBytes++) {
        const partition = new Uint8Array(engine.keyBytesMax - sortBytes);
        const longest = { partition, sort: patternBytes(sortBytes) };
        await put(engine, longest, "longest");
        const end = after(longest);
        assert.equal((await scanAll(engine, { start: EMPTY_KEY, end })).length, 1);
        assert.equal((await scanAll(engine, { start: end })).length, 0);
        await mustCommit(engine, { deletes: [longest] });
      }
    }));

  it("keeps what visit was lent while it reads and scans the engine", () =>
    withEngine(async (engine) => {
      await mustCommit(engine, {
        puts: [
          [key("partition one", "a"), "value of a"],
          [key("partition two", "bb"), "another value, longer"],
        ],
      });
      const seen: string[] = [];
      await engine.scan({ start: EMPTY_KEY }, ({ key: { partition, sort }, value }) => {
        engine.get([key("partition two", "bb"), key("partition one", "a"), a]);
        engine.scan({ start: EMPTY_KEY }, (inner) => text(inner.key.sort) !== "");
        seen.push(`${text(partition)}/${text(sort)}=${text(value)}`);
        return true;
      });
      assert.deepEqual(seen, [
        "partition one/a=value of a",
        "partition two/bb=another value, longer",
      ]);
    }));

  it("keeps a lent value of many megabytes while visit reads another", () =>
    withEngine(async (engine) => {
      const large = patternBytes(17 << 20);
      await put(engine, a, large);
      await put(engine, key("p", "b"), "small");
      let same = false;
      await engine.scan({ start: a }, ({ value }) => {
        engine.get([key("p", "b")]);
        same = Buffer.from(value).equals(large);
        return false;
      });
      assert.equal(same, true);
      const [got] = engine.get([a]);
      assertSameBytes(got!.value, large);
    }));
});

describe("several processes on one folder", () => {
  it("see each other's commits at once and raise each other's versions", () =>
    withEngine(
      async (engine) => {
        const at = key("p", "shared");
        // The second process has a clock a thousand seconds behind this one's.
        const earlier = await withSecondProcess(engine.path, 1_000_000, async (ask) => {
          for (let round = 0; round < 20; round++) {
            const mine = await put(engine, at, `mine ${round}`);
            assert.deepEqual(await ask("get"), { value: `mine ${round}`, version: mine });
            // A read in the same turn of the event loop as the next must not fix what is seen.
            engine.get([at]);
            const newest = engine.newestCommit();
            const { version } = await ask({ put: `theirs ${round}` });
            if (newest !== undefined) assert.notEqual(engine.newestCommit(), newest);
            const [entry] = engine.get([at]);
            assert.equal(text(entry!.value), `theirs ${round}`);
            assert.equal(entry!.version, version);
            assertAbove(version!, mine);
            assert.deepEqual(await scanVersions(engine), [version]);
          }
          return (await ask("get")).version!;
        });
        assertAbove(await put(engine, at, "last"), earlier);
      },
      { clock: { now: () => 2_000_000 } },
    ));

  it("hand out only versions above those they have read, however far ahead another's clock is", () =>
    withEngine(
      async (engine) => {
        await withSecondProcess(engine.path, 2_000_000, async (ask) => {
          const { version } = await ask({ put: "theirs" });
          const [entry] = engine.get([key("p", "shared")]);
          assert.equal(entry!.version, version);
          assertAbove(engine.nextVersion(), version!);
        });
      },
      { clock: { now: () => 1_000_000 } },
    ));

  it("answer what is on disk while another of them holds the lock that the next commit waits for", () =>
    withEngine(async (engine) => {
      const second = fork(join(import.meta.dirname, "test-second-process.ts"), [engine.path, "1"], {
        stdio: ["pipe", "inherit", "inherit", "ipc"],
      });
      await once(second, "message");
      for (let round = 0; round < 5; round++) {
        const letGo = once(second, "message");
        let isAnswered = false;
        let next: Promise<unknown> | undefined;
        engine
          .update(a, () => {
            second.send("hold");
            setImmediate(() => {
              next = put(engine, a, "next");
            });
            return bytes(`${round}`);
          })
          .then(() => {
            isAnswered = true;
          });
        while (!isAnswered) await new Promise((resolve) => setImmediate(resolve));
        second.stdin!.write("x");
        await Promise.all([next, letGo]);
      }
      second.send("close");
      await once(second, "close");
    }));

  it("let one end with a transaction that it asked for, which keeps neither it nor the lock", () =>
    withEngine(async (engine) => {
      const program = join(import.meta.dirname, "test-ending-process.ts");
      for (const how of ["exit", "throw"]) {
        const node = [...process.execArgv, program, engine.path, how];
        const { error } = spawnSync(process.execPath, node, {
          stdio: "ignore",
          timeout: 60_000,
          killSignal: "SIGKILL",
        });
        assert.equal(error, undefined, `It never ended: ${how}`);
        await put(engine, a, how);
      }
    }));

  it("let a process that was killed keep neither the lock nor a snapshot", async () => {
    let now = Date.UTC(2026, 0, 1);
    await withEngine(
      async (engine) => {
        await put(engine, key("p", "shared"), "1");
        const second = fork(
          join(import.meta.dirname, "test-second-process.ts"),
          [engine.path, "1"],
          { stdio: ["pipe", "inherit", "inherit", "ipc"] },
        );
        await once(second, "message");
        second.send("show");
        await once(second, "message");
        second.kill("SIGKILL");
        await once(second, "close");
        now += 60_000;
        // Pages are used again: the file stays far below the sum of what is written.
        for (let i = 0; i < 20; i++) await put(engine, a, patternBytes(1 << 20));
        assertAbove(8 << 20, engine.statistics().fileBytes);
      },
      { clock: { now: () => now } },
    );
  });
});

describe("the data folder", () => {
  it("is created, with a dot in its name too, for nobody else to read", () =>
    withEngine(async (engine) => {
      const path = join(engine.path, "new", "data.d");
      const nested = await openLmdbEngine({ path });
      await nested.close();
      assert.equal(statSync(join(path, "data.mdb")).mode & 0o077, 0);
    }));

  it("grows beyond the address space it began with", () =>
    withEngine(
      async (engine) => {
        for (let index = 0; index < 8; index++) {
          await put(engine, key("p", [index]), patternBytes(1 << 20));
        }
        assert.equal((await scanAll(engine)).length, 8);
      },
      { mapSizeBytes: 1 << 20 },
    ));

  it("says which format it has", () =>
    withEngine(async (engine) => {
      const version = await put(engine, a, "1");
      assert.equal(engine.meta().format, FORMAT);
      assertAbove(engine.meta().versionsReserved, version - 1);
    }));

  it("is refused when its format is newer, when it is damaged, and when it is not ours", async () => {
    const damages: [record: Uint8Array, code: "Unavailable" | "Corrupt"][] = [
      [metaRecord("ROWHOUSE", FORMAT + 1), "Unavailable"],
      [metaRecord("ROWHOUSE", 0), "Unavailable"],
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

  it("is refused when it cannot be one", async () => {
    await assert.rejects(openLmdbEngine({ path: "/dev/null/data" }), isEngineError("Unavailable"));
  });

  it("is refused, not met as a signal, when its file is no LMDB file", async () => {
    for (const content of [Buffer.alloc(100_000), Buffer.from("PGDMP"), Buffer.alloc(8192, 0xde)]) {
      const path = newFolder();
      writeFileSync(join(path, "data.mdb"), content);
      await assert.rejects(openLmdbEngine({ path }), { code: "Corrupt", message: /is no LMDB/ });
      rmSync(path, { recursive: true });
    }
  });

  it("is refused, not met as a signal, wherever its file is cut before a page it begins at", async () => {
    const path = newFolder();
    const engine = await openLmdbEngine({ path });
    for (let index = 0; index < 50; index++) {
      await put(engine, key("p", `${index}`), "x".repeat(20_000));
    }
    await engine.close();
    const file = join(path, "data.mdb");
    // From the page with the root of the tree on, cut ever further ahead.
    for (const [length, complaint] of [
      [3 * 8192, /ends after 24576 bytes/],
      [2 * 8192, /ends after 16384 bytes/],
      [8192 + 100, /lacks its second page/],
      [100, /is no LMDB/],
    ] as const) {
      truncateSync(file, length);
      await assert.rejects(openLmdbEngine({ path }), { code: "Corrupt", message: complaint });
    }
    truncateSync(file, 0);
    await (await openLmdbEngine({ path })).close();
    rmSync(path, { recursive: true });
  });

  if (hasMounts()) {
    it("is refused, not met as a signal, when its disk has no room to begin", () => {
      const path = newFolder();
      const disk = mounted(path, "512k");
      const why = "its disk has 524288 bytes free";
      const { status, stderr } = runLimited(disk, "test-first-open-process.ts", path, why);
      assert.equal(status, 0, stderr);
      rmSync(path, { recursive: true });
    });
  }

  it("is refused, not met as a signal, when it may not write what it needs to begin", () => {
    const path = newFolder();
    const why = "EFBIG: file too large, write$";
    const { status, stderr } = runLimited(fileLimit(64), "test-first-open-process.ts", path, why);
    assert.equal(status, 0, stderr);
    assert.deepEqual(readdirSync(path), []);
    rmSync(path, { recursive: true });
  });

  if (process.platform === "linux") {
    it("is refused, not met as a signal, when it may not be mapped", () => {
      const path = newFolder();
      const why = "this process may use 512000000000 bytes of address space";
      const limit = "ulimit -v 500000000";
      const { status, stderr } = runLimited(limit, "test-first-open-process.ts", path, why);
      assert.equal(status, 0, stderr);
      rmSync(path, { recursive: true });
    });
  }

  it("has all of its table of readers on the disk, which a full one could not give to a reader", () =>
    withEngine(async ({ path }) => {
      const { size, blocks } = statSync(join(path, "lock.mdb"));
      assert.ok(blocks * 512 >= size, `${blocks} blocks hold ${size} bytes`);
    }));

  it("refuses commits once its files were removed or replaced, until it is opened anew", async () => {
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

  it("refuses commits once its lock was removed, for others would make one of their own", async () => {
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

  it("takes no disk for full but one that is", async () => {
    assert.equal(freeBytesOf({ bavail: 0, blocks: 1000, bsize: 4096 }), 0);
    assert.equal(freeBytesOf({ bavail: 2, blocks: 1000, bsize: 4096 }), 8192);
    // One that does not tell has none of anything.
    assert.equal(noSpaceLeft("/proc"), undefined);
    const path = newFolder();
    assert.equal(noSpaceLeft(path), undefined);
    rmSync(path, { recursive: true });
  });

  it("refuses commits that no longer fit on the disk, whole, and takes those that do", () => {
    const path = newFolder();
    const { status, stderr } = runLimited(fileLimit(4096), "test-full-disk-process.ts", path);
    assert.equal(status, 0, stderr);
    rmSync(path, { recursive: true });
  });

  if (hasMounts()) {
    it("asks a full disk for no room for what is large: to be refused has ended the process", () => {
      const path = newFolder();
      const disk = mounted(path, "6m");
      const { status, stderr } = runLimited(disk, "test-full-disk-process.ts", path);
      assert.equal(status, 0, stderr);
      // What lmdb-js prints when a write fails.
      assert.doesNotMatch(stderr, /error/);
      rmSync(path, { recursive: true });
    });
  }

  it("knows how much of its file can be used again", () =>
    withEngine(async (engine) => {
      const keys = Array.from({ length: 20 }, (_, index) => key("p", [index]));
      for (const at of keys) await put(engine, at, patternBytes(100_000));
      const before = unusedBytes(engine.path);
      await mustCommit(engine, { deletes: keys });
      // Values of 13 pages, and the leaf or two in which they were.
      const freed = (unusedBytes(engine.path) - before) / PAGE_BYTES;
      assert.ok(freed >= 20 * 13 && freed < 20 * 13 + 5, `${freed} pages`);
    }));
});

/** Own mounts, which not every system gives to everybody. */
function hasMounts(): boolean {
  return spawnSync("unshare", ["--map-root-user", "--mount", "true"]).status === 0;
}

/** A disk of its own at this path. */
function mounted(path: string, size: string): string {
  const mount = `mount -t tmpfs -o size=${size} none ${path}`;
  return `exec unshare -rm sh -c '${mount} && exec "$0" "$@"' "$0" "$@"`;
}

/** A limit on files, and its signal ignored, is a full disk to whoever writes. In blocks of half a kilobyte. */
function fileLimit(blocks: number): string {
  return `trap '' XFSZ; ulimit -f ${blocks}`;
}

function runLimited(limit: string, program: string, ...args: readonly string[]) {
  const node = [process.execPath, ...process.execArgv, join(import.meta.dirname, program)];
  return spawnSync("sh", ["-c", `${limit}; exec "$0" "$@"`, ...node, ...args], {
    encoding: "utf8",
  });
}

async function scanVersions(engine: Engine): Promise<number[]> {
  return (await scanAll(engine)).map((entry) => entry.version);
}

type Ask = (command: { put: string } | "get") => Promise<{ value?: string; version?: number }>;

async function withSecondProcess<T>(
  path: string,
  clock: number,
  work: (ask: Ask) => Promise<T>,
): Promise<T> {
  const program = join(import.meta.dirname, "test-second-process.ts");
  const second = fork(program, [path, `${clock}`]);
  const ended = once(second, "close");
  try {
    await once(second, "message");
    return await work(async (command) => {
      const answered = once(second, "message");
      second.send(command);
      const [answer] = await answered;
      return answer;
    });
  } finally {
    second.send("close");
    await ended;
  }
}

function metaRecord(magic: string, format: number): Buffer {
  const record = Buffer.alloc(24);
  record.write(magic);
  record.writeUInt16BE(format, 8);
  return record;
}

/** Writes into the environment with lmdb-js itself. */
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

async function withEngine(
  test: (engine: LmdbEngine) => Promise<void>,
  options: Partial<LmdbEngineOptions> = {},
): Promise<void> {
  const engine = await openLmdbEngine({ path: newFolder(), ...options });
  try {
    await test(engine);
  } finally {
    await engine.close();
    rmSync(engine.path, { recursive: true });
  }
}

function isEngineError(code: string): (error: unknown) => boolean {
  return (error) => error instanceof EngineError && error.code === code;
}

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "rowhouse-lmdb-"));
}

function pathOf(engine: Engine): string {
  if (!(engine instanceof LmdbEngine)) throw new Error("Not an LMDB engine.");
  return engine.path;
}
