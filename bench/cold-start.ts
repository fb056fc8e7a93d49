import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { installAzurite, PROGRAMS } from "./contenders/azurite.ts";
import { MAIN } from "./contenders/rowhouse.ts";
import type { Bench } from "./harness/bench.ts";
import { median } from "./harness/measurement.ts";
import { privateMemoryMb } from "./harness/process-figures.ts";
import type { Question } from "./harness/question.ts";
import { finding } from "./harness/results.ts";

/** Processes start cold; the system's page cache stays as loading left it. */
export const coldStart: Question = {
  name: "cold-start",
  asks: "How long does a start take, and how much memory does an idle server use, however much data there is?",
  async run(bench) {
    const entities = bench.options.short ? 100_000 : bench.options.full ? 10_000_000 : 1_000_000;
    const loader = await bench.startRowhouse("loader", { data: "full" });
    await loader.fill({ table: "entities", entities }, "sorted");
    await loader.stop();
    const starts = { full: newStarts(), empty: newStarts() };
    for (let round = 1; round <= (bench.options.short ? 3 : 5); round++) {
      for (const data of ["full", "empty"] as const) {
        bench.progress.show(`cold start, round ${round}, ${data} folder`);
        await startOnce(bench, data, starts[data]);
      }
    }
    record(bench, `${entities} entities`, starts.full);
    record(bench, "empty folder", starts.empty);
    await compareListening(bench);
  },
};

/** What containers are waited for: three services that listen, in an empty folder. The programs start in turns. */
async function compareListening(bench: Bench): Promise<void> {
  installAzurite();
  const ratios: number[] = [];
  const ours: number[] = [];
  for (let round = 0; round <= (bench.options.short ? 5 : 15); round++) {
    bench.progress.show(`to the third listening line, round ${round}`);
    const rowhouse = await millisecondsToListen(MAIN, bench.folder(`r${round}`));
    const azurite = await millisecondsToListen(`${PROGRAMS}/azurite`, bench.folder(`a${round}`));
    // The first round reads the programs from the disk.
    if (round === 0) continue;
    ours.push(rowhouse);
    ratios.push(rowhouse / azurite);
  }
  bench.record({
    name: "three services, empty folder",
    contenders: [],
    findings: [
      finding("ms from the start of the process to the third listening line", median(ours)),
      finding("of the time of azurite", median(ratios), { atMost: 0.6 }),
    ],
  });
}

async function millisecondsToListen(program: string, folder: string): Promise<number> {
  const ports = ["--blobPort", "--queuePort", "--tablePort"].flatMap((flag) => [flag, "0"]);
  const began = performance.now();
  const child = spawn(process.execPath, [program, "--location", folder, ...ports], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  let lines = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    if (/service is successfully listening/.test(line)) lines++;
    if (lines === 3) break;
  }
  const took = performance.now() - began;
  if (lines < 3) throw new Error(`${program} did not serve.`);
  child.stdout.resume();
  child.kill("SIGKILL");
  await exited;
  return took;
}

interface Starts {
  readonly milliseconds: number[];
  readonly idleMb: number[];
}

function newStarts(): Starts {
  return { milliseconds: [], idleMb: [] };
}

async function startOnce(bench: Bench, data: string, starts: Starts): Promise<void> {
  const server = await bench.startServer("started", { data });
  starts.milliseconds.push(server.startMs);
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  starts.idleMb.push(privateMemoryMb(server.pid));
  await server.stop();
}

const IDLE_MS = 2000;

function record(bench: Bench, name: string, starts: Starts): void {
  bench.record({
    name,
    contenders: [],
    findings: [
      finding("ms from the start of the process to the first answer", median(starts.milliseconds), {
        atMost: 500,
      }),
      finding("MiB of private memory, idle", median(starts.idleMb), { atMost: 150 }),
    ],
  });
}
