import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";

/**
 * The last core runs the load generator, all others the server under test, so that neither waits for the
 * other. Without `taskset`, or with one core only, nothing is pinned.
 */
const pinned =
  availableParallelism() > 1 && spawnSync("taskset", ["--version"]).error === undefined;
const last = availableParallelism() - 1;

export type Cores = "server" | "client" | "all";

export const CORES_DESCRIPTION = !pinned
  ? `${availableParallelism()} cores, no process pinned`
  : `${availableParallelism()} cores: servers on ${last === 1 ? "one" : last}, load generator on one`;

const children = new Set<ChildProcess>();

// However the bench ends, also by an interrupt, its processes end too; a paused process reacts to SIGKILL
// only.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts Node on its cores. The child's id is Node's own, because `taskset` replaces itself with it. */
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
