import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { partitionRange } from "@rowhouse/server/engine/key-codec";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { scanToEnd } from "@rowhouse/server/engine/scan-to-end";
import { seededRandom } from "../support/seeded-random.ts";
import { keyOf, type Partition, stepsOf, textOf } from "./random-history.ts";

// CRASH_ROUNDS=500 CRASH_SEED=7 node tools/test.mjs tests/crash
const rounds = Number(process.env.CRASH_ROUNDS ?? 4);
const seed = Number(process.env.CRASH_SEED ?? Date.now() % 100_000);
const WRITERS = 8;

it(`The embedded engine keeps every acknowledged commit, whole, through ${rounds} kills (seed ${seed})`, async () => {
  const path = mkdtempSync(join(tmpdir(), "rowhouse-crash-"));
  const random = seededRandom(seed);
  let taken = new Array<number>(WRITERS).fill(0);
  try {
    for (let round = 0; round < rounds; round++) {
      const acknowledged = await runUntilKilled(path, taken, 5 + random() * 150);
      taken = await judge(path, acknowledged);
    }
    assert.ok(Math.min(...taken) > 0, "Some writer was never acknowledged anything.");
  } finally {
    rmSync(path, { recursive: true });
  }
});

/** Returns how many steps of each writer were acknowledged. */
async function runUntilKilled(
  path: string,
  taken: readonly number[],
  afterMs: number,
): Promise<number[]> {
  const acknowledged = [...taken];
  const crashing = startProcess(path, taken);
  const ended = once(crashing, "close");
  try {
    for await (const line of createInterface({ input: crashing.stdout })) {
      const [writer = "", index, verdict] = line.split(" ");
      assert.equal(verdict, "ok", `Step ${index} of writer ${writer} ended the wrong way.`);
      assert.equal(index, `${acknowledged[Number(writer)]}`, "An acknowledgement is missing.");
      // The time counts from the first acknowledgement, because starting takes much longer than a commit.
      if (sum(acknowledged) === sum(taken)) {
        void delay(afterMs).then(() => crashing.kill("SIGKILL"));
      }
      acknowledged[Number(writer)]!++;
    }
  } finally {
    crashing.kill("SIGKILL");
  }
  assert.deepEqual(await ended, [null, "SIGKILL"], "The process ended before it was killed.");
  return acknowledged;
}

function startProcess(
  path: string,
  taken: readonly number[],
): ChildProcessByStdio<null, Readable, null> {
  const program = join(import.meta.dirname, "engine-crash-process.ts");
  return spawn(
    process.execPath,
    ["--conditions=rowhouse-source", "--import", "tsx", program, path, `${seed}`, taken.join(",")],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
}

/**
 * Every partition must be as after the last acknowledged step, or as after the next one, which was in flight.
 * Returns how many steps were executed.
 */
async function judge(path: string, acknowledged: readonly number[]): Promise<number[]> {
  const engine = await openLmdbEngine({ path });
  try {
    const next = engine.nextVersion();
    const taken: number[] = [];
    for (const [writer, steps] of acknowledged.entries()) {
      const found = new Map<string, string>();
      const { partition } = keyOf(writer, "");
      await scanToEnd(engine, partitionRange(partition), ({ key, value, version }) => {
        assert.ok(version < next, "A version written before the crash can be handed out again.");
        found.set(Buffer.from(key.sort).toString(), textOf(value));
        return true;
      });
      const [before, after] = statesAround(writer, steps);
      if (isSame(found, after)) taken.push(steps + 1);
      else {
        assert.deepEqual(found, before, `Writer ${writer} lost step ${steps - 1} or half of one.`);
        taken.push(steps);
      }
    }
    return taken;
  } finally {
    await engine.close();
  }
}

/** The contents of a partition after this many steps, and after one more. */
function statesAround(writer: number, steps: number): [Partition, Partition] {
  let before: Partition = new Map();
  let index = 0;
  for (const { after } of stepsOf(seed, writer)) {
    if (index++ === steps) return [before, after];
    before = after;
  }
  throw new Error("A history has no end.");
}

function isSame(a: Partition, b: Partition): boolean {
  return a.size === b.size && [...a].every(([sort, value]) => b.get(sort) === value);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
