import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startRowhouse } from "rowhouse/testing";
import { seededRandom } from "../support/seeded-random.ts";
import { canRecord, DiskRecord, type Kept } from "./disk-record.ts";
import { Clients, STEPS, stateAfter, WRITERS } from "./power-loss-history.ts";

// POWER_LOSS_CUTS=all CRASH_SEED=7 node tools/test.mjs tests/crash/power-loss.test.ts
const cuts = process.env.POWER_LOSS_CUTS ?? "6";
const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);

describe(`A loss of power at any call of a running server (seed ${seed}, CRASH_SEED repeats it)`, () => {
  if (!canRecord) {
    it("is not tried: strace is not installed, or not allowed here", () => {});
    return;
  }
  const random = seededRandom(seed);
  const scratch = realpathSync(mkdtempSync(join(tmpdir(), "rowhouse-power-")));
  const folder = join(scratch, "data");
  let record: DiskRecord;

  before(async () => {
    // The record begins with a folder that is in use.
    await startRowhouse({ engine: { path: folder } }).then((server) => server.close());
    const program = join(import.meta.dirname, "power-loss-process.ts");
    const node = ["--conditions=rowhouse-source", "--import", "tsx", program, folder];
    record = DiskRecord.of(node, folder, scratch);
    // A write that the record missed would make every layout below better or worse than the disk.
    const copy = join(scratch, "copy");
    record.layOut(copy, Number.POSITIVE_INFINITY, "everything");
    assert.deepEqual(hashesIn(copy), hashesIn(folder));
  });
  after(() => rmSync(scratch, { recursive: true }));

  const KEPT: readonly (readonly [string, Kept])[] = [
    ["nothing that was not flushed is kept", "nothing"],
    ["all of it is kept, as a kill keeps it", "everything"],
    ["some sectors of it are kept", random],
  ];
  for (const [title, kept] of KEPT) {
    it(`loses no acknowledged write and tears none: ${title}`, async () => {
      const times = record.times.filter((time) => time >= preparedAt(record));
      for (const time of cuts === "all" ? times : sample(times, Number(cuts), random)) {
        const target = join(scratch, "after");
        record.layOut(target, time, kept);
        try {
          await judge(record, target, time);
        } catch (error) {
          throw new Error(`Power was lost at line ${time} of the record.`, { cause: error });
        } finally {
          rmSync(target, { recursive: true });
        }
      }
    });
  }
});

/** Of all files but LMDB's shared memory. */
function hashesIn(folder: string): ReadonlyMap<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "lock.mdb")
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const hashOf = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
  return new Map(files.map((file) => [file.slice(folder.length), hashOf(file)]));
}

function preparedAt({ printed }: DiskRecord): number {
  return printed.find(({ text }) => text === "prepared\n")!.at;
}

/** What is stored must be what the acknowledged steps of each writer wrote, or that and the step in progress. */
async function judge(record: DiskRecord, path: string, time: number): Promise<void> {
  const lines = record.printed.filter(({ at }) => at <= time).map(({ text }) => text);
  const count = (line: string) => lines.filter((each) => each === line).length;
  const server = await startRowhouse({ engine: { path }, services: ["table", "blob"] });
  try {
    const clients = new Clients(server);
    for (let writer = 0; writer < WRITERS; writer++) {
      const acknowledged = count(`acknowledged ${writer}\n`);
      const begun = count(`begun ${writer}\n`);
      const found = [...(await clients.stateOf(writer))].sort();
      const whole = [acknowledged, begun].map((steps) => [...stateAfter(steps)].sort());
      assert.ok(
        whole.some((each) => JSON.stringify(each) === JSON.stringify(found)),
        `Writer ${writer} was acknowledged ${acknowledged} of ${STEPS} steps: ${JSON.stringify(found)}`,
      );
    }
  } finally {
    await server.close();
  }
}

function sample(times: readonly number[], count: number, random: () => number): number[] {
  return Array.from({ length: count }, () => times[Math.floor(random() * times.length)]!);
}
