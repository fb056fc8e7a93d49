import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { cpuMicros } from "../../bench/harness/process-figures.ts";
import { TRIES_ALL } from "./empty-folder.ts";
import { writeEmulatorFolder } from "./emulator-folder.ts";
import { Installed } from "./installed.ts";

let user: Installed;
before(async () => {
  user = await Installed.open();
});
after(() => user.remove());

const ENTITY =
  /^\{"PartitionKey":"p0000","RowKey":"r00000000","Timestamp":"[^"]+","Text":"a \\"quoted\\" text, é 0","Whole":1\.0,"Int":0,"Big@odata\.type":"Edm\.Int64","Big":"9007199254740993","Yes":true,"When@odata\.type":"Edm\.DateTime","When":"2026-01-02T03:04:05\.1234567Z","Id@odata\.type":"Edm\.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833","Bytes@odata\.type":"Edm\.Binary","Bytes":"AQID"\}$/m;

describe("Somebody who moves in, and out again,", () => {
  it("takes the emulator's folder over, copies it, exports, imports and purges, every type exact", async () => {
    const path = (name: string) => join(user.folder.path, name);
    writeEmulatorFolder(path("azurite"), 700);
    const imported = await user.rowhouse(["import", "azurite", "azurite", "--location", "data"]);
    assert.match(imported, /700 entities in 1 tables/);
    const from = await user.serve(["--location", "data"]);
    const to = await user.serve(["--inMemoryPersistence"]);
    try {
      const both = ["--from", from.tables, "--to", to.tables];
      const copied = await user.rowhouse(["copy", ...both, "--verify"]);
      assert.match(copied, /Types: 700 entities compared, 0 differences/);
      await user.rowhouse(["export", "--from", to.tables, "--to", "lines"]);
      await user.rowhouse(["export", "--from", to.tables, "--to", "cells", "--format", "csv"]);
      assert.match(readFileSync(path("lines/Types.jsonl"), "utf8"), ENTITY);
      const cells = ["import", "cells/Types.csv", "--to", to.tables, "--table", "Again"];
      assert.match(await user.rowhouse(cells), /700 entities written to Again/);
      await user.rowhouse(["export", "--from", to.tables, "--to", "again", "--table", "Again"]);
      assert.match(readFileSync(path("again/Again.jsonl"), "utf8"), ENTITY);
      const purge = ["purge", "Again", "--from", to.tables, "--filter", "Int lt 300"];
      assert.match(await user.rowhouse([...purge, "--dry-run"]), /300 entities would be deleted/);
      assert.match(await user.rowhouse(purge), /300 entities deleted/);

      // A line that a full disk has torn, and one that the service refuses.
      writeFileSync(path("torn.jsonl"), '{"PartitionKey":"a/b","RowKey":"1"}\n{"PartitionKey":"p"');
      const torn = ["import", "torn.jsonl", "--to", to.tables, "--rejects", "rejects.jsonl"];
      const found = await user.rowhouse(torn, 1);
      assert.match(found, /torn\.jsonl line 1: OutOfRangeInput/);
      assert.match(found, /torn\.jsonl line 2: it is no JSON: /);
      assert.equal(readFileSync(path("rejects.jsonl"), "utf8").trim().split("\n").length, 2);
    } finally {
      assert.deepEqual([await from.stop(), await to.stop()], [0, 0]);
    }
  });
});

/** What one run of a command took, in seconds of the clock and of the processor. */
interface Took {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** Runs a command and prints how fast it was. */
async function timed(args: readonly string[]): Promise<Took> {
  const main = join(user.folder.path, "node_modules/rowhouse/dist/main.js");
  const began = performance.now();
  const child = spawn(process.execPath, [main, ...args], {
    cwd: user.folder.path,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exited = once(child, "exit");
  let micros = 0;
  let isRunning = true;
  exited.then(() => {
    isRunning = false;
  });
  while (isRunning) {
    const now = cpuMicros(child.pid!);
    if (now > 0) micros = now;
    await pause(20);
  }
  assert.deepEqual(await exited, [0, null]);
  return { seconds: (performance.now() - began) / 1000, cpuSeconds: micros / 1e6 };
}

const ENTITIES = 300_000;

if (TRIES_ALL) {
  describe(`With ${ENTITIES} entities of all types`, () => {
    const say = (what: string, { seconds, cpuSeconds }: Took) =>
      `${what}: ${Math.round(ENTITIES / seconds)} entities/s, ${Math.round(ENTITIES / cpuSeconds)} for a second of CPU`;

    it("everything is moved, and a copy that is killed in the middle ends without a difference", async (t) => {
      writeEmulatorFolder(join(user.folder.path, "many"), ENTITIES);
      const took = await timed(["import", "azurite", "many", "--location", "all"]);
      t.diagnostic(say("import azurite", took));
      const from = await user.serve(["--location", "all"]);
      const to = await user.serve(["--location", "copy"]);
      try {
        const before = cpuMicros(from.pid);
        const exported = await timed(["export", "--from", from.tables, "--to", "exported"]);
        t.diagnostic(say("export", exported));
        const served = (cpuMicros(from.pid) - before) / 1e6;
        t.diagnostic(
          `the server that it exports from: ${Math.round(ENTITIES / served)} for a second of CPU`,
        );

        const state = join(user.folder.path, "copy.state");
        const both = ["--from", from.tables, "--to", to.tables];
        const copy = ["copy", ...both, "--state", "copy.state", "--verify"];
        const main = join(user.folder.path, "node_modules/rowhouse/dist/main.js");
        const killed = spawn(process.execPath, [main, ...copy], { cwd: user.folder.path });
        // With the state, some pages of each range are copied, and others are under way.
        while (!existsSync(state)) await pause(5);
        await pause(1000);
        killed.kill("SIGKILL");
        assert.deepEqual(await once(killed, "exit"), [null, "SIGKILL"]);
        assert.ok(existsSync(state), "It ended before it was killed.");
        const printed = await user.rowhouse(copy);
        assert.match(printed, /Types: 300000 entities compared, 0 differences/);
        t.diagnostic(printed.trim());
      } finally {
        await from.stop();
        await to.stop();
      }
    });
  });
}
