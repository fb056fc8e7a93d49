import assert from "node:assert/strict";
import { type ChildProcess, fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  absent,
  assertAbove,
  atVersion,
  bytes,
  commit,
  key,
  patternBytes,
  put,
  scanAll,
  text,
} from "../conformance/steps.ts";
import type { Engine } from "../engine.ts";
import { assertCanBeOpened, DATA_FILE } from "./data-file.ts";
import { withEngine } from "./test-engine.ts";

const a = key("p", "a");
const TAKE_BACK = `
  const [path, commits] = process.argv.slice(1);
  const file = fs.openSync(path + "/lock.mdb", "r+");
  const number = Buffer.alloc(8);
  fs.readSync(file, number, 0, 8, 8);
  number.writeBigUInt64LE(number.readBigUInt64LE() - BigInt(commits));
  fs.writeSync(file, number, 0, 8, 8);`;
const hasStrace = spawnSync("strace", ["-o", "/dev/null", "true"]).status === 0;

describe("Several processes on one folder", () => {
  it("see each other's commits at once and raise versions above each other's", () =>
    withEngine(
      async (engine) => {
        const at = key("p", "shared");
        // The clock of the second process is a thousand seconds behind this one's.
        const earlier = await withSecondProcess(engine.path, 1_000_000, async (ask) => {
          for (let round = 0; round < 20; round++) {
            const mine = await put(engine, at, `mine ${round}`);
            assert.deepEqual(await ask("get"), { value: `mine ${round}`, version: mine });
            // A read in the same turn of the event loop as the next must not fix what that one sees.
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

  it("issue only versions above those they have read, however far ahead another's clock is", () =>
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

  it("raise a put above a version that a process with a clock ahead has just written, even unread", () =>
    withEngine(
      async (engine) => {
        await withSecondProcess(engine.path, 2_000_000, async (ask) => {
          for (let round = 0; round < 3; round++) {
            // The other process's transaction is the only one between two of ours.
            await put(engine, a, `${round}`);
            const { version } = await ask({ put: "theirs" });
            assertAbove(await put(engine, key("p", "shared"), "mine"), version!);
          }
        });
      },
      { clock: { now: () => 1_000_000 } },
    ));

  it("raise it so even if a commit of their own was refused in between", () =>
    withEngine(
      async (engine) => {
        await withSecondProcess(engine.path, 2_000_000, async (ask) => {
          await put(engine, a, "1");
          const nothing = await commit(engine, { checks: [absent(a)], puts: [[a, "2"]] });
          assert.equal(nothing.committed, false);
          const { version } = await ask({ put: "theirs" });
          assertAbove(await put(engine, key("p", "shared"), "mine"), version!);
        });
      },
      { clock: { now: () => 1_000_000 } },
    ));

  it("refuse what is known to have held before another process changed it", () =>
    withEngine(async (engine) => {
      await withSecondProcess(engine.path, 1, async (ask) => {
        const shared = key("p", "shared");
        const checks = [atVersion(shared, await put(engine, shared, "mine"))];
        const heldAt = engine.newestCommit();
        const dependent = { checks, heldAt, puts: [[a, "1"]] } as const;
        assert.equal((await commit(engine, dependent)).committed, true);
        await ask({ put: "theirs" });
        for (let round = 0; round < 2; round++) {
          assert.deepEqual(await commit(engine, dependent), { committed: false, failedCheck: 0 });
        }
      });
    }));

  it("acknowledge flushed commits while another process holds the lock that the next commit needs", () =>
    withEngine(async (engine) => {
      const second = await forkSecond(engine.path, 1);
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

  it("exit while waiting for a transaction, and leave the lock free", () =>
    withEngine(async (engine) => {
      const program = join(import.meta.dirname, "test-ending-process.ts");
      for (const how of ["exit", "throw"]) {
        const node = [...process.execArgv, program, engine.path, how];
        const { error } = spawnSync(process.execPath, node, {
          stdio: "ignore",
          timeout: 60_000,
          killSignal: "SIGKILL",
        });
        assert.equal(error, undefined, `The process did not end: ${how}`);
        await put(engine, a, how);
      }
    }));

  it("know whether another process has the folder open, also after that one is killed", () =>
    withEngine(async (engine) => {
      assert.equal(engine.isShared(), false);
      await withSecondProcess(engine.path, 1, async () => assert.equal(engine.isShared(), true));
      assert.equal(engine.isShared(), false);
      const second = await forkSecond(engine.path, 1);
      assert.equal(engine.isShared(), true);
      second.kill("SIGKILL");
      await once(second, "close");
      assert.equal(engine.isShared(), false);
    }));

  it("can be opened while others write, who reuse the pages that a meta page read before refers to", () =>
    withEngine(async (engine) => {
      const writers = await Promise.all([forkSecond(engine.path, 1), forkSecond(engine.path, 2)]);
      const ended = writers.map((writer) => once(writer, "close"));
      try {
        for (const writer of writers) writer.send("go on");
        for (let opened = 0; opened < 10_000; opened++) {
          assertCanBeOpened(engine.path);
          if (opened % 100 === 0) await nextTurn();
        }
      } finally {
        for (const writer of writers) writer.kill("SIGKILL");
        await Promise.all(ended);
      }
    }));

  it("lose no commit while another one opens the folder, and read all of them", (test) =>
    withEngine(async (engine) => {
      if (!hasStrace) return test.diagnostic("not tried: strace is not installed, or not allowed");
      const program = join(import.meta.dirname, "test-opening-process.ts");
      // LMDB maps the file between its look at it and its store of the number: many commits of others happen there.
      const slowly = ["-P", join(engine.path, DATA_FILE), "-e", "inject=mmap:delay_exit=20000"];
      const opening = spawn(
        "strace",
        [
          "-f",
          "-o",
          "/dev/null",
          ...slowly,
          process.execPath,
          ...process.execArgv,
          program,
          engine.path,
          "20",
        ],
        { stdio: "inherit" },
      );
      const ended = once(opening, "close");
      let isOpening = true;
      opening.once("close", () => {
        isOpening = false;
      });
      for (let count = 0; isOpening; count++) {
        await engine.update(a, (stored) => {
          assert.equal(stored === undefined ? 0 : Number(text(stored)), count);
          return bytes(`${count + 1}`);
        });
        const [entry] = engine.get([a]);
        assert.equal(Number(text(entry!.value)), count + 1);
        const [scanned] = await scanAll(engine);
        assert.equal(Number(text(scanned!.value)), count + 1);
      }
      assert.deepEqual(await ended, [0, null]);
    }));

  // As a process does that opens the folder, if others have committed since it read the file.
  for (const commits of [1, 2, 9]) {
    it(`go on at the newest commit after another one took back the last ${commits}`, () =>
      withEngine(async (engine) => {
        const takeBack = () => {
          const { status } = spawnSync(process.execPath, [
            "-e",
            TAKE_BACK,
            engine.path,
            `${commits}`,
          ]);
          assert.equal(status, 0);
        };
        for (let round = 0; round < 10; round++) await put(engine, a, `${round}`);
        takeBack();
        const [entry] = engine.get([a]);
        assert.equal(text(entry!.value), "9");

        await put(engine, a, "scanned");
        takeBack();
        const [scanned] = await scanAll(engine);
        assert.equal(text(scanned!.value), "scanned");

        const newest = engine.newestCommit();
        takeBack();
        assert.equal(engine.newestCommit(), newest);

        const version = await put(engine, a, "replaced");
        takeBack();
        const replaced = await commit(engine, {
          checks: [atVersion(a, version)],
          puts: [[a, "new"]],
        });
        assert.equal(replaced.committed, true);

        await commit(engine, { deletes: [a] });
        takeBack();
        assert.deepEqual(engine.get([a]), [undefined]);
      }));
  }

  it("keep neither the lock nor a snapshot of a process that was killed", async () => {
    let now = Date.UTC(2026, 0, 1);
    await withEngine(
      async (engine) => {
        await put(engine, key("p", "shared"), "1");
        const second = await forkSecond(engine.path, 1);
        second.send("show");
        await once(second, "message");
        second.kill("SIGKILL");
        await once(second, "close");
        now += 60_000;
        // Pages are reused: the file stays far below the sum of the writes.
        for (let i = 0; i < 20; i++) await put(engine, a, patternBytes(1 << 20));
        assertAbove(8 << 20, engine.statistics().fileBytes);
      },
      { clock: { now: () => now } },
    );
  });
});

async function scanVersions(engine: Engine): Promise<number[]> {
  return (await scanAll(engine)).map((entry) => entry.version);
}

type Ask = (command: { put: string } | "get") => Promise<{ value?: string; version?: number }>;

async function withSecondProcess<T>(
  path: string,
  clock: number,
  work: (ask: Ask) => Promise<T>,
): Promise<T> {
  const second = await forkSecond(path, clock);
  const ended = once(second, "close");
  try {
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

/** Resolves when the process has opened the folder. */
async function forkSecond(path: string, clock: number): Promise<ChildProcess> {
  const program = join(import.meta.dirname, "test-second-process.ts");
  const second = fork(program, [path, `${clock}`], {
    stdio: ["pipe", "inherit", "inherit", "ipc"],
  });
  await once(second, "message");
  return second;
}
