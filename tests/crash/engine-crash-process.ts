/**
 * The process that is killed: executes the steps of all writers concurrently and prints each acknowledgement.
 * `node engine-crash-process.ts <folder> <seed> <steps taken, by writer>`.
 */
import { writeSync } from "node:fs";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { stepsOf, writeOf } from "./random-history.ts";

const [path = "", seed = "", taken = ""] = process.argv.slice(2);
const engine = await openLmdbEngine({ path });

await Promise.all(taken.split(",").map((count, writer) => takeSteps(writer, Number(count))));

async function takeSteps(writer: number, from: number): Promise<void> {
  let index = -1;
  for (const step of stepsOf(Number(seed), writer)) {
    index++;
    if (index < from) continue;
    const { committed } = await engine.commit(writeOf(step, writer, engine.nextVersion()));
    // Unbuffered, so that everything printed before the kill can be read afterwards.
    writeSync(
      1,
      `${writer} ${index} ${committed === (step.kind !== "refused") ? "ok" : "wrong"}\n`,
    );
  }
}
