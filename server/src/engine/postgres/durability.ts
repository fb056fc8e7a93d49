import type { ServerFacts } from "./server-facts.ts";

/** What the acknowledgement of a write means, according to the server's settings. */
export type DurabilityClass =
  /** A crash of the server may lose it. Refused unless the operator allows it. */
  | "none"
  /** On the disk of one machine; losing that disk loses it. */
  | "disk"
  /** The standby's operating system has it, but not its disk. */
  | "two machines, one in memory"
  /** Flushed on the primary and on a standby; survives either one. */
  | "two machines"
  /** As "two machines", and a read on that standby sees it. */
  | "two machines, visible";

export interface Durability {
  readonly class: DurabilityClass;
  /** A sentence for the log and the status page. */
  readonly detail: string;
  /** What `--require-durability` may require, and is kept. */
  readonly keeps: ReadonlySet<RequiredDurability>;
  /** The machines on whose disks an acknowledged write is, as far as the settings tell: 0, 1 or 2 for "more than one". */
  readonly machines: 0 | 1 | 2;
}

/** "standby": flushed on a standby too. "majority": flushed on most of the machines that the settings name. */
export const REQUIRED_DURABILITIES = ["standby", "majority"] as const;
export type RequiredDurability = (typeof REQUIRED_DURABILITIES)[number];

export function durabilityOf({ isTableUnlogged, settings }: ServerFacts): Durability {
  const commit = settings.synchronous_commit;
  if (settings.fsync === "off") return none("fsync is off");
  if (commit === "off") return none("synchronous_commit is off");
  if (isTableUnlogged) return none("the table rh_kv is UNLOGGED, so a crash empties it");
  const pages =
    settings.full_page_writes === "off"
      ? " full_page_writes is off: that is safe only on a file system that never tears a page."
      : "";
  const standbys = settings.synchronous_standby_names ?? "";
  if (standbys === "" || commit === "local") {
    return {
      class: "disk",
      keeps: NOTHING,
      machines: 1,
      detail: `A write is acknowledged when it is on the disk of one machine.${pages}`,
    };
  }
  const named = `synchronous_standby_names is "${standbys}".${pages}`;
  if (commit === "remote_write") {
    return {
      class: "two machines, one in memory",
      keeps: NOTHING,
      machines: 1,
      detail: `A write is acknowledged when a standby has received it, before it is flushed there; ${named}`,
    };
  }
  const isVisible = commit === "remote_apply";
  return {
    class: isVisible ? "two machines, visible" : "two machines",
    keeps: new Set(isMajority(standbys) ? REQUIRED_DURABILITIES : ["standby"]),
    machines: 2,
    detail: `A write is acknowledged when it is also ${isVisible ? "applied" : "flushed"} on a standby; ${named}`,
  };
}

function none(reason: string): Durability {
  return {
    class: "none",
    keeps: NOTHING,
    machines: 0,
    detail: `A crash of the database server may lose acknowledged writes: ${reason}.`,
  };
}

const NOTHING: ReadonlySet<RequiredDurability> = new Set();

/**
 * Whether a commit waits for so many of the named standbys that they are, with the primary, most of all machines: two of
 * them then always have a machine in common. How many `*` stands for is not known.
 */
function isMajority(standbys: string): boolean {
  const [, count = "1", listed] =
    /^(?:(?:any|first)\s+)?(\d+)\s*\((.*)\)$/is.exec(standbys.trim()) ?? [];
  const names = (listed ?? standbys).split(",").map((name) => name.trim().replaceAll('"', ""));
  const machines = names.length + 1;
  return !names.includes("*") && Number(count) + 1 > machines / 2;
}
