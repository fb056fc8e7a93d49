import { readFileSync } from "node:fs";
import { LIMITS } from "@rowhouse/protocol/limits";

const REPORT_MS = 60_000;
/** A look at all connections that found none to close is not repeated before. */
const LOOK_MS = 100;

export interface OpenConnection {
  /** Since when no request, or only a part of a head, has come: monotonic milliseconds. Undefined while one is served. */
  readonly idleSince: number | undefined;
  destroy(): unknown;
}

/** What happened when too many connections were open. */
export interface ConnectionCounts {
  /** Idle connections that were closed for newer ones. */
  readonly closedIdle: number;
  /** New connections that were closed, because no other was idle. */
  readonly refused: number;
}

export interface OpenConnectionsOptions {
  /** Default: a share of the files that this process may open. */
  readonly max?: number;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
  /** Called when connections were closed, at once and then once a minute at most, with the counts since then. */
  readonly onReport?: (counts: ConnectionCounts & { readonly max: number }) => void;
}

/**
 * All connections of a process, on every port and lane, kept below the number of files that it may open. Beyond that,
 * libuv accepts connections and drops them at once without telling anybody, and no file can be opened either.
 */
export class OpenConnections {
  readonly #max: number;
  readonly #now: () => number;
  readonly #onReport: OpenConnectionsOptions["onReport"];
  readonly #connections = new Set<OpenConnection>();
  /** Those that were idle at the last look, the one that has been so for the longest time last. */
  readonly #idle: { readonly connection: OpenConnection; readonly since: number }[] = [];
  #nextLookAt = -Infinity;
  #counts: ConnectionCounts = { closedIdle: 0, refused: 0 };
  #reported = this.#counts;
  #nextReportAt = -Infinity;

  constructor(options: OpenConnectionsOptions = {}) {
    this.#max = options.max ?? connectionsMax();
    this.#now = options.now ?? (() => performance.now());
    this.#onReport = options.onReport;
  }

  /** Since the start of this process. */
  get counts(): ConnectionCounts {
    return this.#counts;
  }

  /** If there is no room, the one that has been idle for the longest time is closed, or else this one. */
  add(connection: OpenConnection): void {
    if (this.#connections.size >= this.#max) {
      const idle = this.#takeIdle();
      const { closedIdle, refused } = this.#counts;
      this.#counts = idle
        ? { closedIdle: closedIdle + 1, refused }
        : { closedIdle, refused: refused + 1 };
      this.#report();
      (idle ?? connection).destroy();
      if (!idle) return;
      this.#connections.delete(idle);
    }
    this.#connections.add(connection);
  }

  delete(connection: OpenConnection): void {
    this.#connections.delete(connection);
  }

  #takeIdle(): OpenConnection | undefined {
    return this.#nextIdle() ?? (this.#look() ? this.#nextIdle() : undefined);
  }

  #nextIdle(): OpenConnection | undefined {
    while (true) {
      const oldest = this.#idle.pop();
      if (oldest === undefined) return undefined;
      const { connection, since } = oldest;
      if (this.#connections.has(connection) && connection.idleSince === since) return connection;
    }
  }

  /** Sorts all that are idle, for many calls of `add`. */
  #look(): boolean {
    const now = this.#now();
    if (now < this.#nextLookAt) return false;
    for (const connection of this.#connections) {
      const since = connection.idleSince;
      if (since !== undefined) this.#idle.push({ connection, since });
    }
    this.#idle.sort((one, other) => other.since - one.since);
    if (this.#idle.length === 0) this.#nextLookAt = now + LOOK_MS;
    return true;
  }

  #report(): void {
    const now = this.#now();
    if (now < this.#nextReportAt) return;
    this.#nextReportAt = now + REPORT_MS;
    const [counts, before] = [this.#counts, this.#reported];
    this.#reported = counts;
    this.#onReport?.({
      max: this.#max,
      closedIdle: counts.closedIdle - before.closedIdle,
      refused: counts.refused - before.refused,
    });
  }
}

/** Most systems but Linux have no such file; there nothing is limited. */
function connectionsMax(): number {
  let limits: string;
  try {
    limits = readFileSync("/proc/self/limits", "latin1");
  } catch {
    return Number.POSITIVE_INFINITY;
  }
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined
    ? Number.POSITIVE_INFINITY
    : Math.floor(Number(soft) * LIMITS.connectionFilesShare);
}
