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
}

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
      detail: `A write is acknowledged when it is on the disk of one machine.${pages}`,
    };
  }
  const named = `synchronous_standby_names is "${standbys}".${pages}`;
  if (commit === "remote_write") {
    return {
      class: "two machines, one in memory",
      detail: `A write is acknowledged when a standby has received it, before it is flushed there; ${named}`,
    };
  }
  const isVisible = commit === "remote_apply";
  return {
    class: isVisible ? "two machines, visible" : "two machines",
    detail: `A write is acknowledged when it is also ${isVisible ? "applied" : "flushed"} on a standby; ${named}`,
  };
}

function none(reason: string): Durability {
  return {
    class: "none",
    detail: `A crash of the database server may lose acknowledged writes: ${reason}.`,
  };
}
