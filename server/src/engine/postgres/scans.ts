import type { Key, KeyRange, ScanEnd, ScanHints, Visit } from "../engine.ts";
import { after } from "../key-codec.ts";
import { isTransient, toEngineError } from "./outcome.ts";
import { query } from "./query.ts";
import { isInOnePartition, Scan, type ScanFailure } from "./scan.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";
import { PAGE_END, PAGE_END_TO } from "./statements.ts";

/** The most time that a snapshot lives: an old one keeps the server from removing dead rows. */
const SNAPSHOT_MS_MAX = 2_000;
/** In effect no limit: the portal stops the server as well, and time ends every scan. */
const ROWS_MAX = 1_000_000;
/** For servers that collect all rows of a statement before they send the first. */
const ROWS_COLLECTED = { min: 64, expected: 256, max: 1_000 };
/** From this many rows on, finding the end of a page over shards first makes the page three times as fast. */
const PAGE_END_ROWS_MIN = 100;
const BACKOFF_MS_MAX = 50;
const ROW_BYTES_AT_FIRST = 1024;

export interface ScansOptions {
  readonly pool: SessionPool;
  readonly dialect: Dialect;
  readonly timeoutMs: number;
}

/** Runs scans, each on a connection of its own: a long one must not delay point reads. */
export class Scans {
  readonly #options: ScansOptions;
  /** The average row size of recent scans; determines how many rows the next one requests at first. */
  #rowBytes = ROW_BYTES_AT_FIRST;

  constructor(options: ScansOptions) {
    this.#options = options;
  }

  /** Scans one range, or several of one partition. */
  async scan(
    ranges: readonly KeyRange[],
    visit: Visit,
    hints: ScanHints | undefined,
  ): Promise<ScanEnd> {
    const { pool, timeoutMs } = this.#options;
    const deadline = performance.now() + timeoutMs;
    for (let attempt = 1; ; attempt++) {
      const session = await pool.acquire(deadline);
      const end = await this.#attempt(session, { ranges, visit, hints, deadline });
      if (typeof end === "string" || "resumeAt" in end) return end;
      if (!end.mayRepeat) throw end.error;
      if (!isTransient(end.error) || performance.now() > deadline) throw toEngineError(end.error);
      const backoffMs = Math.random() * Math.min(BACKOFF_MS_MAX, 2 ** attempt);
      await new Promise((resolve) => setTimeout(resolve, backoffMs));
    }
  }

  async #attempt(session: Session, scan: ScanCall): Promise<ScanEnd | ScanFailure> {
    const { dialect } = this.#options;
    if (dialect === "postgres") return this.#run(session, scan, ROWS_MAX);
    const [first, second] = scan.ranges;
    if (second) {
      const end = await this.#attempt(session, { ...scan, ranges: [first!] });
      return end === "complete" ? { resumeAt: second.start } : end;
    }
    // Leaving rows out was not tested on other servers, so they send all rows.
    scan = { ...scan, hints: { ...scan.hints, wanted: undefined } };
    const { min, expected, max } = ROWS_COLLECTED;
    const rowsMax = Math.max(min, Math.min(scan.hints?.entriesExpected ?? expected, max));
    const isPaged = rowsMax >= PAGE_END_ROWS_MIN && !isInOnePartition(first!);
    if (dialect !== "citus" || !isPaged) return this.#run(session, scan, rowsMax);

    let pageEnd: Key | undefined;
    try {
      pageEnd = await findPageEnd(session, first!, rowsMax);
    } catch (error) {
      this.#options.pool.release(session);
      return { error, mayRepeat: true };
    }
    if (pageEnd === undefined) return this.#run(session, scan, rowsMax);
    const resumeAt = after(pageEnd);
    const ranges = [{ start: first!.start, end: resumeAt }];
    // The LIMIT stays, although the range is closed: without it the planner sorts.
    const end = await this.#run(session, { ...scan, ranges }, rowsMax);
    return end === "complete" ? { resumeAt } : end;
  }

  #run(session: Session, scan: ScanCall, rowsMax: number): Promise<ScanEnd | ScanFailure> {
    return new Promise((settle) => {
      new Scan(session, {
        ranges: scan.ranges,
        visit: scan.visit,
        entriesExpected: scan.hints?.entriesExpected,
        wanted: scan.hints?.wanted,
        rowBytesExpected: this.#rowBytes,
        rowsMax,
        deadline: scan.deadline,
        endsAt: performance.now() + SNAPSHOT_MS_MAX,
        settle,
        leave: (rowBytes) => {
          if (rowBytes > 0) this.#rowBytes = this.#rowBytes * 0.8 + rowBytes * 0.2;
          this.#options.pool.release(session);
        },
      }).start();
    });
  }
}

interface ScanCall {
  readonly ranges: readonly KeyRange[];
  readonly visit: Visit;
  readonly hints: ScanHints | undefined;
  readonly deadline: number;
}

/** The last key of a page of `rows`; undefined if the page reaches the end of the range. */
async function findPageEnd(
  session: Session,
  { start, end }: KeyRange,
  rows: number,
): Promise<Key | undefined> {
  let key: Key | undefined;
  const bounds = end
    ? [start.partition, start.sort, end.partition, end.sort]
    : [start.partition, start.sort];
  await query(session, end ? PAGE_END_TO : PAGE_END, [...bounds, rows - 1], (row) => {
    key = { partition: row.bytes(), sort: row.bytes() };
  });
  return key;
}
