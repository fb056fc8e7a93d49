import { isTransient, toEngineError } from "./outcome.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Exchange, Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";
import type { ServerError } from "./sql-state.ts";

/** Reads of one Sync: few enough that the first does not wait long for the last. */
const BATCH_READS_MAX = 64;
/** Reads that fail one after the other wait up to this long, doubled each time, up to the second. */
const RETRY_MS = { min: 20, max: 250 };
/** How often reads that wait for a session are checked: one that joined later may have an earlier deadline. */
const LOOK_MS = 1_000;

/** A read of one statement or a few, which collects their rows. */
export interface PointRead {
  readonly deadline: number;
  readonly statementCount: number;
  /**
   * How often the read met an error of its own. It is then sent alone, or it would fail its neighbours again.
   */
  failures: number;
  /** Writes the statements with their parameters, `execute` included. */
  send(session: Session): void;
  row(row: RowReader): void;
  /** Discards the rows of a failed attempt. */
  restart(): void;
  resolve(): void;
  reject(error: Error): void;
}

/**
 * Runs reads over few sessions, many at once. Reads that arrive while a session is busy share one Sync and one
 * write with the others of their turn of the event loop: fewer system calls on both sides, and one transaction
 * of the server instead of many. Each statement still has its own snapshot, taken after the read was submitted.
 *
 * A read is repeated up to its deadline: when its connection breaks, when the server is not ready, when a
 * neighbour in its batch failed. One that failed by itself is repeated in a batch of its own: its shard may
 * be away for long while the shards of the others are available.
 */
export class PointReads {
  readonly #pool: SessionPool;
  readonly #sessionsMax: number;
  #sessions: SharedSession[] = [];
  #isOpening = false;
  /** Reads without a session. */
  #waiting: PointRead[] = [];

  /**
   * On a cluster, neighbours are of different shards: one that is away must not fail the reads of the others, and
   * each shard is a round trip of its own in any case.
   */
  readonly batchReadsMax: number;

  constructor(pool: SessionPool, options: { sessionsMax: number; dialect: Dialect }) {
    this.batchReadsMax = options.dialect === "citus" ? 1 : BATCH_READS_MAX;
    this.#pool = pool;
    this.#sessionsMax = options.sessionsMax;
  }

  submit(read: PointRead): void {
    const session = this.#quietestSession();
    if (session === undefined) this.#waiting.push(read);
    else session.add(read);
    const isCrowded = session === undefined || session.batchCount > 1;
    if (isCrowded && !this.#isOpening && this.#sessions.length < this.#sessionsMax) {
      void this.#openSession(read.deadline);
    }
  }

  /** Repeats a read whose batch failed, or rejects it. */
  retry(read: PointRead, error: Error, isOwnFault: boolean): void {
    if (performance.now() > read.deadline || (isOwnFault && !isTransient(error))) {
      read.reject(toEngineError(error));
      return;
    }
    read.restart();
    if (isOwnFault) {
      const waitMs = Math.min(RETRY_MS.max, RETRY_MS.min * 2 ** read.failures++);
      setTimeout(() => this.submit(read), Math.random() * waitMs);
    } else {
      this.submit(read);
    }
  }

  #quietestSession(): SharedSession | undefined {
    let quietest: SharedSession | undefined;
    for (let index = this.#sessions.length - 1; index >= 0; index--) {
      const session = this.#sessions[index]!;
      if (session.isLost) this.#sessions.splice(index, 1);
      else if (!quietest || session.readCount < quietest.readCount) quietest = session;
    }
    return quietest;
  }

  async #openSession(deadline: number): Promise<void> {
    this.#isOpening = true;
    let failure: unknown;
    try {
      const looksAt = Math.min(deadline, performance.now() + LOOK_MS);
      this.#sessions.push(new SharedSession(await this.#pool.acquire(looksAt), this));
    } catch (error) {
      failure = error;
    }
    this.#isOpening = false;
    const now = performance.now();
    for (const read of this.#waiting.splice(0)) {
      const isOver = failure !== undefined && (!isTransient(failure) || now >= read.deadline);
      if (isOver) read.reject(toEngineError(failure));
      else this.submit(read);
    }
  }
}

/** A session that reads share. It never returns to the pool; when it breaks, it is dropped. */
class SharedSession {
  readCount = 0;
  /** Batches without an answer, the open one included. */
  batchCount = 0;
  readonly #session: Session;
  readonly #reads: PointReads;
  #batch: ReadBatch | undefined;

  constructor(session: Session, reads: PointReads) {
    this.#session = session;
    this.#reads = reads;
  }

  get isLost(): boolean {
    return this.#session.isLost;
  }

  add(read: PointRead): void {
    if (this.#batch && read.failures > 0) this.#endBatch(this.#batch);
    if (this.#batch === undefined) this.#beginBatch(read.deadline);
    const batch = this.#batch!;
    batch.reads.push(read);
    this.readCount++;
    read.send(this.#session);
    // Alone, a read leaves at once; behind others it waits for the rest of its turn.
    const isFull = batch.reads.length >= this.#reads.batchReadsMax;
    if (this.batchCount === 1 || isFull || read.failures > 0) this.#endBatch(batch);
  }

  #beginBatch(deadline: number): void {
    const batch = new ReadBatch(deadline, this);
    this.#batch = batch;
    this.batchCount++;
    this.#session.begin(batch);
    if (this.batchCount > 1) setImmediate(() => this.#endBatch(batch));
  }

  #endBatch(batch: ReadBatch): void {
    if (this.#batch !== batch) return;
    this.#batch = undefined;
    this.#session.sync();
  }

  settle(batch: ReadBatch, error: Error | undefined): void {
    if (this.#batch === batch) this.#batch = undefined;
    const { reads, completed } = batch;
    this.readCount -= reads.length;
    this.batchCount--;
    if (error === undefined) {
      for (const read of reads) read.resolve();
      return;
    }
    for (let index = 0; index < reads.length; index++) {
      this.#reads.retry(reads[index]!, error, index === completed);
    }
  }
}

class ReadBatch implements Exchange {
  readonly deadline: number;
  readonly isRead = true;
  readonly reads: PointRead[] = [];
  completed = 0;
  /** Statements of the read that is not complete. */
  #completedOfRead = 0;
  readonly #session: SharedSession;
  #error: ServerError | undefined;

  constructor(deadline: number, session: SharedSession) {
    this.deadline = deadline;
    this.#session = session;
  }

  row(row: RowReader): void {
    this.reads[this.completed]!.row(row);
  }

  complete(): void {
    this.#completedOfRead++;
    if (this.#completedOfRead < this.reads[this.completed]!.statementCount) return;
    this.completed++;
    this.#completedOfRead = 0;
  }

  failed(error: ServerError): void {
    this.#error = error;
  }

  ready(): void {
    this.#session.settle(this, this.#error);
  }

  lost(error: Error): void {
    this.#session.settle(this, this.#error ?? error);
  }
}
