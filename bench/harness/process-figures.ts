import { readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";

/**
 * Linux's figures for a process and the workers it started. Elsewhere every figure is NaN and the report
 * omits it.
 */
export function cpuMicros(pid: number): number {
  let ticks = 0;
  for (const member of family(pid)) {
    const stat = read(`/proc/${member}/stat`);
    // The command in parentheses may contain anything, so fields are counted after it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    ticks += Number(fields[USER_TIME] ?? Number.NaN) + Number(fields[SYSTEM_TIME] ?? Number.NaN);
  }
  return ticks * MICROS_PER_TICK;
}

/** CPU time that all processes on all cores have used since the machine started. */
export function machineCpuMicros(): number {
  let milliseconds = 0;
  for (const { times } of cpus()) milliseconds += times.user + times.nice + times.sys + times.irq;
  return milliseconds * 1000 + stolenMicros();
}

/** CPU time that a virtual machine's host gave to others while a process here could have run. */
function stolenMicros(): number {
  const fields = /^cpu +(.*)$/m.exec(read("/proc/stat"))?.[1]?.split(" ");
  return Number(fields?.[STOLEN_TIME] ?? 0) * MICROS_PER_TICK;
}

const STOLEN_TIME = 7;

/** Private memory in MiB: what a process uses besides mapped files. */
export function privateMemoryMb(pid: number): number {
  let kilobytes = 0;
  for (const member of family(pid)) {
    kilobytes += Number(
      /^RssAnon:\s+(\d+) kB/m.exec(read(`/proc/${member}/status`))?.[1] ?? Number.NaN,
    );
  }
  return kilobytes / 1024;
}

const USER_TIME = 11;
const SYSTEM_TIME = 12;
/** USER_HZ is 100 on every architecture that Node runs on. */
const MICROS_PER_TICK = 10_000;

/** A process and its descendants that still run. */
export function family(pid: number): number[] {
  const members = [pid];
  for (const task of list(`/proc/${pid}/task`)) {
    for (const child of read(`/proc/${pid}/task/${task}/children`).split(" ")) {
      if (child !== "") members.push(...family(Number(child)));
    }
  }
  return members;
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
