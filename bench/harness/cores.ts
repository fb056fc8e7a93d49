import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";

/**
 * The last core belongs to the load generator, all others to the server under test, so that neither
 * waits for the other's turn. Without `taskset`, or with one core only, nobody is pinned.
 */
const pinned =
  availableParallelism() > 1 && spawnSync("taskset", ["--version"]).error === undefined;
const last = availableParallelism() - 1;

export type Cores = "server" | "client" | "all";

export const CORES_DESCRIPTION = !pinned
  ? `${availableParallelism()} cores, nobody pinned`
  : `${availableParallelism()} cores: servers on ${last === 1 ? "one" : last}, load generator on one`;

const children = new Set<ChildProcess>();

// Whatever ends the bench, also an interrupt, ends what it started; a paused process hears SIGKILL only.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts Node on its cores. The process answers to its own id: `taskset` becomes what it starts. */
export function spawnNode(
  cores: Cores,
  args: readonly string[],
  options: SpawnOptions,
  node = process.execPath,
): ChildProcess {
  const child = isPinned(cores)
    ? spawn("taskset", ["-c", listOf(cores), node, ...args], options)
    : spawn(node, args, options);
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

function isPinned(cores: Cores): boolean {
  return pinned && cores !== "all";
}

function listOf(cores: Cores): string {
  if (cores === "client") return `${last}`;
  return last === 1 ? "0" : `0-${last - 1}`;
}
