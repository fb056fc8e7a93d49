import { meter } from "../../patterns/src/store/meter.ts";
import { answerCommands } from "../harness/bench-process.ts";
import type { Figures } from "../harness/figures.ts";
import { cpuMicros, machineCpuMicros } from "../harness/process-figures.ts";
import { Histogram } from "../load/histogram.ts";
import { prepareBuild } from "./index-build.ts";
import { type Account, PatternBench } from "./works.ts";

/** The two implementations: the library, or code on the official client. */
export type Hand = "library" | "by hand";

export type PatternCommand =
  | { readonly kind: "open"; readonly account: Account; readonly serverPid: number }
  | { readonly kind: "cost"; readonly work: number }
  | {
      readonly kind: "measure";
      readonly work: number;
      readonly by: Hand;
      readonly clients: number;
      readonly warmUpMs: number;
      readonly windowMs: number;
    }
  | { readonly kind: "build"; readonly by: Hand; readonly persons: number };

export interface PatternAnswer {
  readonly names?: readonly string[];
  readonly cost?: { readonly requests: number; readonly entities: number };
  readonly figures?: Figures;
}

let opened: { readonly bench: PatternBench; readonly account: Account; readonly serverPid: number };
let skippedMs = 0;
let next = 0;

/** The clock of a build stops while it waits for other writers. */
const skipping = {
  now: () => Date.now() + skippedMs,
  sleep: async (ms: number) => {
    skippedMs += ms;
  },
  alarm: () => new Promise<void>(() => {}),
};

answerCommands<PatternCommand, PatternAnswer>(async (command) => {
  switch (command.kind) {
    case "open": {
      const { account, serverPid } = command;
      const bench = new PatternBench(account, { clock: skipping });
      opened = { bench, account, serverPid };
      await bench.fill();
      return { names: bench.works.map(({ name }) => name) };
    }
    case "cost":
      return { cost: await costOf(command.work) };
    case "measure":
      return { figures: await measure(command) };
    case "build":
      return { figures: await build(command.by, command.persons) };
  }
});

/** The requests that one operation of the library sends. */
async function costOf(work: number): Promise<{ requests: number; entities: number }> {
  const { usage, layer } = meter();
  const bench = new PatternBench(opened.account, { clock: skipping, meter: layer });
  await bench.works[work]!.library(next++);
  return { ...usage };
}

async function measure(command: Extract<PatternCommand, { kind: "measure" }>): Promise<Figures> {
  const { by, clients, warmUpMs, windowMs } = command;
  const work = opened.bench.works[command.work]!;
  const operate = by === "library" ? work.library : work.byHand;
  await during(warmUpMs, clients, operate);
  return watched(() => during(windowMs, clients, operate));
}

/** Runs a closed loop of clients and returns the latencies. */
async function during(
  ms: number,
  clients: number,
  operate: (i: number) => Promise<unknown>,
): Promise<Counted> {
  const counted: Counted = { latencies: new Histogram(), operations: 0, failure: "" };
  const until = performance.now() + ms;
  const client = async () => {
    for (let now = performance.now(); now < until; ) {
      await operate(next++).catch((error) => {
        counted.failure ||= String(error);
      });
      const end = performance.now();
      counted.latencies.record(end - now);
      counted.operations++;
      now = end;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return counted;
}

interface Counted {
  readonly latencies: Histogram;
  operations: number;
  failure: string;
}

async function watched(work: () => Promise<Counted>): Promise<Figures> {
  const cpu = () => [cpuMicros(opened.serverPid), cpuMicros(process.pid), machineCpuMicros()];
  const [server = 0, client = 0, machine = 0] = cpu();
  const from = performance.now();
  const { latencies, operations, failure } = await work();
  const milliseconds = performance.now() - from;
  const [serverAfter = 0, clientAfter = 0, machineAfter = 0] = cpu();
  return {
    operations,
    failures: failure === "" ? 0 : 1,
    firstFailure: failure,
    milliseconds,
    serverCpuMicros: serverAfter - server,
    clientCpuMicros: clientAfter - client,
    machineCpuMicros: machineAfter - machine,
    latencies: latencies.counts,
    fewest: operations,
    most: operations,
  };
}

/** Indexes all persons from nothing; an operation is one entity. */
async function build(by: Hand, persons: number): Promise<Figures> {
  const { byHand, library } = await prepareBuild(opened.bench, persons);
  const run = by === "library" ? library : byHand;
  return watched(async () => ({
    latencies: new Histogram(),
    operations: await run(),
    failure: "",
  }));
}
