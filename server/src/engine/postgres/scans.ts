import type { Key, KeyRange, ScanEnd, ScanHints, Visit } from "../engine.ts";
import { after, copyKey } from "../key-codec.ts";
import { KEY_BYTES_MAX } from "./commit-plan.ts";
import { isTransient, toEngineError } from "./outcome.ts";
import { isOnEveryNode } from "./placement.ts";
import { type Parameter, query } from "./query.ts";
import { isInOnePartition, Scan, type ScanFailure } from "./scan.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";
import { boundsOf, type ClosedRange, type OnRow, ShardPages } from "./shard-pages.ts";
import { COUNT_ACROSS, type Statement } from "./statements.ts";

/** The most time that a snapshot lives: an old one keeps the server from removing dead rows. */
const SNAPSHOT_MS_MAX = 2_000;
/** In effect no limit: the portal stops the server as well, and time ends every scan. */
const ROWS_MAX = 1_000_000;
/** Citus collects all rows of a statement before it sends the first. */
const ROWS_COLLECTED = { min: 64, expected: 256, max: 1_024 };
const COLLECTED_BYTES = 2 * 1024 * 1024;
/** Rows that the shards together examine for a page if they send only wanted ones. */
const EXAMINED_MAX = 65_536;
/** Behind every key. */
const END: Key = { partition: Buffer.alloc(KEY_BYTES_MAX + 1, 0xff), sort: new Uint8Array() };
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
  readonly #pages = new ShardPages();

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
    if (isInOnePartition(first!) || isOnEveryNode(first!.start.partition, dialect)) {
      const { min, expected, max } = ROWS_COLLECTED;
      const rowsMax = Math.max(min, Math.min(scan.hints?.entriesExpected ?? expected, max));
      return this.#run(session, withoutWanted(scan), rowsMax);
    }
    this.#options.pool.release(session);
    return this.#scanShards(scan, first!);
  }

  /**
   * Page by page until the visitor stops or the time of a snapshot is over, so that a caller who wants many rows
   * gets them in one call.
   */
  async #scanShards(scan: ScanCall, range: KeyRange): Promise<ScanEnd | ScanFailure> {
    const endsAt = performance.now() + SNAPSHOT_MS_MAX;
    let rows = scan.hints?.entriesExpected ?? ROWS_COLLECTED.expected;
    let { start } = range;
    do {
      const page = await this.#page(scan, { start, end: range.end ?? END }, rows);
      // What was visited stays visited: the rest is another call.
      if ("error" in page)
        return start === range.start || !page.mayRepeat ? page : { resumeAt: start };
      if (page.end !== undefined) return page.end;
      start = page.resumeAt;
      rows = Math.max(rows - page.visited, ROWS_COLLECTED.expected);
    } while (performance.now() <= endsAt);
    return { resumeAt: start };
  }

  /** Scans about `rows` rows. Has an `end` if the whole scan ends with them. */
  async #page(
    scan: ScanCall,
    { start, end }: ClosedRange,
    rows: number,
  ): Promise<ScanFailure | { end?: ScanEnd; resumeAt: Key; visited: number }> {
    const wanted = start.partition.length > 0 ? scan.hints?.wanted : undefined;
    const length = wanted ? EXAMINED_MAX : this.#pageLength(rows);
    const limit = wanted ? ROWS_COLLECTED.max : length;
    let resumeAt = start;
    let visited = 0;
    let stoppedAt: Key | undefined;
    const visit: Visit = (entry) => {
      visited++;
      const goesOn = scan.visit(entry);
      if (!goesOn) stoppedAt = copyKey(entry.key);
      return goesOn;
    };
    try {
      const ask = (statement: Statement, parameters: readonly Parameter[], onRow: OnRow) =>
        this.#query(statement, parameters, scan.deadline, onRow);
      const pageEnd = await this.#pages.endOf({ start, end }, length, ask);
      const range = { start, end: pageEnd ?? end };
      const session = await this.#options.pool.acquire(scan.deadline);
      const hints = { ...scan.hints, wanted };
      // The LIMIT stays, although the range is closed: without it the planner sorts.
      const ended = await this.#run(session, { ...scan, hints, visit, ranges: [range] }, limit);
      if (typeof ended === "object" && "error" in ended) return ended;
      resumeAt = typeof ended === "object" ? ended.resumeAt : range.end;
      if (stoppedAt) resumeAt = after(stoppedAt);
      const isLast = stoppedAt !== undefined || (ended === "complete" && pageEnd === undefined);
      const last = isLast ? { end: ended } : {};
      if (wanted) {
        const others = (await this.#count({ start, end: resumeAt }, scan.deadline)) - visited;
        if (others > 0 && !wanted.leftOut(others) && !isLast)
          return { end: { resumeAt }, resumeAt, visited };
      }
      return { ...last, resumeAt, visited };
    } catch (error) {
      // Only the count failed of what was left out, which is lost.
      return visited === 0 ? { error, mayRepeat: true } : { end: { resumeAt }, resumeAt, visited };
    }
  }

  #pageLength(rows: number): number {
    const { min, max } = ROWS_COLLECTED;
    const fitting = Math.floor(COLLECTED_BYTES / this.#rowBytes);
    return Math.max(1, Math.min(Math.max(rows, min), max, fitting));
  }

  async #count(range: ClosedRange, deadline: number): Promise<number> {
    let count = 0;
    await this.#query(COUNT_ACROSS, boundsOf(range), deadline, (row) => {
      count = row.int8();
    });
    return count;
  }

  async #query(
    statement: Statement,
    parameters: readonly Parameter[],
    deadline: number,
    onRow: OnRow,
  ): Promise<void> {
    const { pool } = this.#options;
    const session = await pool.acquire(deadline);
    await query(session, statement, parameters, onRow).finally(() => pool.release(session));
  }

  #run(session: Session, scan: ScanCall, rowsMax: number): Promise<ScanEnd | ScanFailure> {
    return new Promise((settle) => {
      new Scan(session, {
        dialect: this.#options.dialect,
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

function withoutWanted(scan: ScanCall): ScanCall {
  return { ...scan, hints: { ...scan.hints, wanted: undefined } };
}
