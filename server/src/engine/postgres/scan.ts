import type { Key, KeyRange, ScanEnd, Visit, WantedSorts } from "../engine.ts";
import { after, copyKey, equalBytes } from "../key-codec.ts";
import { TimeSlice } from "../time-slice.ts";
import { KEY_BYTES_MAX } from "./commit-plan.ts";
import { OWN_ROW_VERSION } from "./get.ts";
import { inTableOf } from "./placement.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Exchange, Session } from "./session.ts";
import type { ServerError } from "./sql-state.ts";
import {
  BEGIN_SNAPSHOT,
  MARK_ROWS,
  SCAN_ACROSS,
  SCAN_ACROSS_TO,
  SCAN_PARTITION,
  SCAN_PARTITION_TO,
  SCAN_WANTED,
  SCAN_WANTED_OF_SHARDS,
  type Statement,
} from "./statements.ts";

/**
 * The most rows requested first: their expected size is known only from other scans. Enough for a range of a hundred
 * in one round trip.
 */
const FIRST_ROWS_MAX = 128;
/** The most bytes that one request for rows should bring; also the most discarded when the visitor stops. */
const CHUNK_BYTES = 1024 * 1024;
const CHUNK_ROWS_MAX = 4096;
/** The most rows that the server may examine for one request if it leaves rows out: about 0.2 s. */
const CHUNK_EXAMINED_MAX = 64 * MARK_ROWS;
/** The bytes of a row in addition to its key and value: lengths, version, header. */
const ROW_OVERHEAD_BYTES = 32;

export interface ScanOptions {
  readonly dialect: Dialect;
  /** One, or several of one partition. */
  readonly ranges: readonly KeyRange[];
  readonly visit: Visit;
  readonly entriesExpected: number | undefined;
  readonly wanted: WantedSorts | undefined;
  /** The average size of the rows of earlier scans. */
  readonly rowBytesExpected: number;
  /** The LIMIT of the statement: rows examined after which the scan ends early. */
  readonly rowsMax: number;
  readonly deadline: number;
  /** When to end early, so that no snapshot lives long. As of `performance.now()`. */
  readonly endsAt: number;
  /** Called once, as soon as the result is known. */
  readonly settle: (end: ScanEnd | ScanFailure) => void;
  /** Called once, when the session can be reused or is lost. `rowBytes` is 0 if there were no rows. */
  readonly leave: (rowBytes: number) => void;
}

export interface ScanFailure {
  readonly error: unknown;
  /** Nothing was visited and the fault is not the visitor's. */
  readonly mayRepeat: boolean;
}

/**
 * One statement, hence one snapshot of each partition, read in chunks: its portal stays open and is asked for
 * more rows until the visitor stops, the range ends or time is up. The first chunk is small; from then on the
 * size of the rows seen determines the next chunk, so that neither a thousand rows of 1 MiB nor a million
 * small ones fill the memory. Rows are visited where they lie in the chunks of the socket. Several ranges are
 * one statement each, in a transaction that keeps the snapshot.
 *
 * This is not a cursor: it lives within one exchange, its time is bounded, its visitor never waits.
 *
 * A scan is settled once its result is known: by the visitor, the end, the time or an error. It then sends
 * Sync and drops rows that still arrive, and leaves when the session is ready or lost.
 */
export class Scan implements Exchange {
  readonly deadline: number;
  readonly isRead = true;
  readonly #session: Session;
  readonly #options: ScanOptions;
  readonly #isAcross: boolean;
  /** If set, the server returns only wanted rows, and marks; otherwise every row. */
  readonly #wanted: WantedSorts | undefined;
  /** If set, the servers of a cluster return only wanted rows; the caller counts the others. */
  readonly #uncounted: WantedSorts | undefined;
  readonly #budget = new TimeSlice();
  /** The range being read; ranges are read one after the other. */
  #rangeIndex = 0;
  /** With several ranges: the answer to BEGIN is still to come. */
  #isBeginning: boolean;
  #chunkRows: number;
  /** Rows the server has read in this range, including those it left out. */
  #examined = 0;
  #answered = 0;
  /** Rows that came with a value. */
  #rowCount = 0;
  #byteCount = 0;
  #last: KeptKey | undefined;
  #isSettled = false;
  #isSynced = false;

  constructor(session: Session, options: ScanOptions) {
    this.#session = session;
    this.#options = options;
    this.deadline = options.deadline;
    const { start, end } = this.#range;
    this.#isBeginning = options.ranges.length > 1;
    const isCluster = options.dialect === "citus";
    // With wanted keys, a cluster is asked for a part of a large partition in the same way.
    this.#isAcross = !isInOnePartition(this.#range) || (isCluster && options.wanted !== undefined);
    // A range that starts in the first partition contains the engine's own row, which must not be counted.
    const isCountable = this.#isAcross && end !== undefined && start.partition.length > 0;
    this.#wanted = isCountable && !isCluster ? options.wanted : undefined;
    this.#uncounted = isCountable && isCluster ? options.wanted : undefined;
    const rows = Math.min(FIRST_ROWS_MAX, Math.floor(CHUNK_BYTES / options.rowBytesExpected));
    this.#chunkRows = Math.max(1, Math.min(options.entriesExpected ?? rows, rows));
  }

  start(): void {
    const session = this.#session;
    session.begin(this);
    if (this.#isBeginning) {
      session.bind(BEGIN_SNAPSHOT);
      session.execute();
    }
    this.#begin();
  }

  get #range(): KeyRange {
    return this.#options.ranges[this.#rangeIndex]!;
  }

  #begin(): void {
    this.#bind();
    this.#session.execute(this.#chunkRows);
    this.#session.flush();
  }

  #bind(): void {
    const { rowsMax } = this.#options;
    const { start, end } = this.#range;
    if (this.#isAcross) {
      const across = end ? SCAN_ACROSS_TO : SCAN_ACROSS;
      const selective = this.#wanted ? SCAN_WANTED : this.#uncounted && SCAN_WANTED_OF_SHARDS;
      const writer = this.#session.bind(this.#statement(selective ?? across));
      writer.bytes(start.partition);
      writer.bytes(start.sort);
      if (end) {
        writer.bytes(end.partition);
        writer.bytes(end.sort);
      }
      const wanted = this.#wanted ?? this.#uncounted;
      if (wanted) writer.bytesArray(wanted.bounds);
      writer.int8(rowsMax);
      return;
    }
    const endSort = end && end.partition.length === start.partition.length ? end.sort : undefined;
    const scan = endSort ? SCAN_PARTITION_TO : SCAN_PARTITION;
    const writer = this.#session.bind(this.#statement(scan));
    writer.bytes(start.partition);
    writer.bytes(start.sort);
    if (endSort) writer.bytes(endSort);
    writer.int8(rowsMax);
  }

  #statement(statement: Statement): Statement {
    return inTableOf(this.#range.start.partition, statement, this.#options.dialect);
  }

  row(row: RowReader): void {
    if (this.#isSettled) return;
    let end: ScanEnd | undefined;
    try {
      end = this.#take(row);
    } catch (error) {
      this.#settle({ error, mayRepeat: false });
      return;
    }
    if (end !== undefined) this.#settle(end);
    else if (this.#budget.isSpent()) void this.#giveTurn();
  }

  /** Visits a row, or counts the rows left out before it. Returns how the scan ends, if it ends here. */
  #take(row: RowReader): ScanEnd | undefined {
    const partition = this.#isAcross ? row.bytes() : this.#range.start.partition;
    const key = { partition, sort: row.bytes() };
    this.#answered++;
    if (this.#wanted === undefined) {
      this.#examined++;
    } else {
      const position = row.int8();
      const isMark = row.fieldBytes() < 0;
      const leftOut = position - this.#examined - (isMark ? 0 : 1);
      this.#examined = position;
      const resumeAt = isMark ? after(key) : key;
      if (leftOut > 0 && !this.#wanted.leftOut(leftOut)) return { resumeAt: copyKey(resumeAt) };
      if (isMark) {
        this.#keep(key);
        return performance.now() > this.#options.endsAt
          ? { resumeAt: copyKey(resumeAt) }
          : undefined;
      }
    }
    const version = row.int8();
    const value = row.bytes();
    this.#rowCount++;
    this.#byteCount += partition.length + key.sort.length + value.length + ROW_OVERHEAD_BYTES;
    if (version === OWN_ROW_VERSION) return undefined;
    this.#keep(key);
    return this.#options.visit({ key, value, version }) ? undefined : "stopped";
  }

  /** The bytes of a row are only lent. */
  #keep(key: Key): void {
    this.#last ??= new KeptKey();
    this.#last.keep(key);
  }

  /** Where to go on behind the last row. */
  #behindLast(): Key {
    return after(this.#last ? this.#last.key() : this.#range.start);
  }

  async #giveTurn(): Promise<void> {
    this.#session.pause();
    await this.#budget.nextTurn();
    this.#session.resume();
  }

  suspended(): void {
    if (this.#isSettled) return;
    if (performance.now() > this.#options.endsAt) {
      this.#settle({ resumeAt: this.#behindLast() });
      return;
    }
    this.#chooseChunk();
    this.#session.continue(this.#chunkRows);
  }

  #chooseChunk(): void {
    const examinedPerRow = this.#examined / this.#answered;
    const rows = Math.floor(
      Math.min(CHUNK_ROWS_MAX, CHUNK_BYTES / this.#rowBytes, CHUNK_EXAMINED_MAX / examinedPerRow),
    );
    const expected = (this.#options.entriesExpected ?? 0) - this.#rowCount;
    this.#chunkRows = Math.max(1, expected > 0 ? Math.min(rows, expected) : rows);
  }

  complete(): void {
    if (this.#isSettled) return;
    if (this.#isBeginning) {
      this.#isBeginning = false;
      return;
    }
    const isWhole = this.#examined < this.#options.rowsMax || this.#last === undefined;
    if (!isWhole) this.#settle({ resumeAt: this.#behindLast() });
    else if (this.#rangeIndex + 1 === this.#options.ranges.length) this.#settle("complete");
    else this.#goOn();
  }

  /** Goes on to the next range, unless time is up. */
  #goOn(): void {
    if (this.#answered > 0) this.#chooseChunk();
    this.#rangeIndex++;
    this.#examined = 0;
    this.#answered = 0;
    if (performance.now() > this.#options.endsAt) this.#settle({ resumeAt: this.#range.start });
    else this.#begin();
  }

  failed(error: ServerError): void {
    this.#fail(error);
  }

  ready(): void {
    this.#options.leave(this.#rowBytes);
  }

  lost(error: Error): void {
    this.#isSynced = true;
    this.#fail(error);
    this.#options.leave(this.#rowBytes);
  }

  get #rowBytes(): number {
    return this.#rowCount === 0 ? 0 : this.#byteCount / this.#rowCount;
  }

  /** Entries that were visited stay visited: the rest is another call. */
  #fail(error: Error): void {
    this.#settle(this.#last ? { resumeAt: this.#behindLast() } : { error, mayRepeat: true });
  }

  /**
   * Reports the result at once; rows that are still on their way are dropped as they arrive. The transaction
   * of several ranges is left to the session, which rolls back any transaction it finds open.
   */
  #settle(end: ScanEnd | ScanFailure): void {
    if (!this.#isSynced) {
      this.#isSynced = true;
      this.#session.sync();
    }
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#options.settle(end);
  }
}

/** A copy of the last of many keys, in memory of its own. */
class KeptKey {
  #bytes = Buffer.allocUnsafe(KEY_BYTES_MAX);
  #partitionLength = 0;
  #length = 0;

  keep({ partition, sort }: Key): void {
    this.#bytes.set(partition);
    this.#bytes.set(sort, partition.length);
    this.#partitionLength = partition.length;
    this.#length = partition.length + sort.length;
  }

  key(): Key {
    return copyKey({
      partition: this.#bytes.subarray(0, this.#partitionLength),
      sort: this.#bytes.subarray(this.#partitionLength, this.#length),
    });
  }
}

/** Whether the range ends in the partition it begins in, or exactly where that partition ends. */
export function isInOnePartition({ start, end }: KeyRange): boolean {
  if (!end) return false;
  const from = start.partition;
  const to = end.partition;
  if (to.length === from.length) return equalBytes(from, to);
  const isBehindIt = to.length === from.length + 1 && to[from.length] === 0;
  return isBehindIt && end.sort.length === 0 && equalBytes(from, to.subarray(0, from.length));
}
