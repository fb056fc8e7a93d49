import type { KeyRange, ScanEnd, ScanHints, Visit } from "../engine.ts";
import { isPassing, toEngineError } from "./outcome.ts";
import { Scan, type ScanFailure } from "./scan.ts";
import type { Dialect } from "./server-facts.ts";
import type { SessionPool } from "./session-pool.ts";

/** A snapshot lives no longer: an old one keeps the server from removing dead rows. */
const SNAPSHOT_MS_MAX = 2_000;
/** In effect none: the portal stops the server as well, and time ends every scan. */
const ROWS_MAX = 1_000_000;
/** A coordinator collects every row of a statement, from every shard, before it sends the first. */
const ROWS_MAX_COLLECTED = 1_000;
const BACKOFF_MS_MAX = 50;

export interface ScansOptions {
  readonly pool: SessionPool;
  readonly dialect: Dialect;
  readonly timeoutMs: number;
}

/** Runs scans, each on a connection of its own: a long one must not stand before point reads. */
export class Scans {
  readonly #options: ScansOptions;

  constructor(options: ScansOptions) {
    this.#options = options;
  }

  async scan(range: KeyRange, visit: Visit, hints: ScanHints | undefined): Promise<ScanEnd> {
    const deadline = performance.now() + this.#options.timeoutMs;
    for (let attempt = 1; ; attempt++) {
      const end = await this.#attempt(range, visit, hints, deadline);
      if (typeof end === "string" || "resumeAt" in end) return end;
      if (!end.mayRepeat) throw end.error;
      if (!isPassing(end.error) || performance.now() > deadline) throw toEngineError(end.error);
      const backoffMs = Math.random() * Math.min(BACKOFF_MS_MAX, 2 ** attempt);
      await new Promise((resolve) => setTimeout(resolve, backoffMs));
    }
  }

  async #attempt(
    range: KeyRange,
    visit: Visit,
    hints: ScanHints | undefined,
    deadline: number,
  ): Promise<ScanEnd | ScanFailure> {
    const { pool, dialect } = this.#options;
    const session = await pool.acquire(deadline);
    return new Promise((settle) => {
      new Scan(session, {
        range,
        visit,
        entriesExpected: hints?.entriesExpected,
        rowsMax: dialect === "postgres" ? ROWS_MAX : ROWS_MAX_COLLECTED,
        deadline,
        endsAt: performance.now() + SNAPSHOT_MS_MAX,
        settle,
        leave: () => pool.release(session),
      }).start();
    });
  }
}
