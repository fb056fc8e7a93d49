import { compareKeys } from "../key-codec.ts";
import { CommitBatch } from "./commit-batch.ts";
import type { OneKeyWrite } from "./commit-one.ts";
import { isPassing, type Outcome } from "./outcome.ts";
import type { Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";

/** Transactions under way at once: some are flushed while others are gathered and sent. */
const BATCHES_MAX = 4;
/** Those that take longer do not count: a rival, or a standby that is away, keeps them waiting. */
const PATIENCE_MS = 200;
const BATCH_WRITES_MAX = 32;
/** Few bytes of others before one's own: a large value is worth a transaction of its own. */
const BATCH_BYTES_MAX = 256 * 1024;

/** What became of a write. "spoiled": nothing, for another write of its transaction met an error. */
export type Gathered =
  | "spoiled"
  /** How the transaction ended, and what the statement answered. */
  | { readonly outcome: Outcome; readonly rowVersion: number | undefined };

interface Waiting {
  readonly write: OneKeyWrite;
  readonly deadline: number;
  readonly settle: (gathered: Gathered) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Puts commits of one key that come at the same time into one transaction. Nobody waits for company:
 * what finds no other under way leaves at once, behind others it leaves at the end of its turn of the
 * event loop, and what comes while enough are under way leaves together.
 */
export class GatheredCommits {
  readonly #pool: SessionPool;
  readonly #waiting: Waiting[] = [];
  #underWay = 0;
  #isScheduled = false;
  #isAcquiring = false;

  constructor(pool: SessionPool) {
    this.#pool = pool;
  }

  /** @throws EngineError `Unavailable` when no connection came before `deadline`, `Closed`. */
  run(write: OneKeyWrite, deadline: number): Promise<Gathered> {
    return new Promise((settle, reject) => {
      this.#waiting.push({ write, deadline, settle, reject });
      if (this.#underWay === 0) {
        void this.#dispatch();
      } else if (!this.#isScheduled && this.#underWay < BATCHES_MAX) {
        this.#isScheduled = true;
        setImmediate(() => {
          this.#isScheduled = false;
          void this.#dispatch();
        });
      }
    });
  }

  /** What comes while a connection is opened leaves over it too. */
  async #dispatch(): Promise<void> {
    while (!this.#isAcquiring && this.#waiting.length > 0 && this.#underWay < BATCHES_MAX) {
      this.#isAcquiring = true;
      let session: Session;
      try {
        session = await this.#pool.acquire(this.#waiting[0]!.deadline);
      } catch (error) {
        const refused = this.#waiting.splice(0, isPassing(error) ? 1 : this.#waiting.length);
        for (const { reject } of refused) reject(error);
        continue;
      } finally {
        this.#isAcquiring = false;
      }
      this.#send(session, this.#take());
    }
  }

  /** In the order they came, then sorted: they take hold of their keys as every commit does. */
  #take(): Waiting[] {
    let count = 0;
    let bytes = 0;
    for (const { write } of this.#waiting) {
      bytes += write.value?.length ?? 0;
      if (count === BATCH_WRITES_MAX || (count > 0 && bytes > BATCH_BYTES_MAX)) break;
      count++;
    }
    const batch = this.#waiting.splice(0, count);
    return count === 1 ? batch : batch.sort((a, b) => compareKeys(a.write.key, b.write.key));
  }

  #send(session: Session, batch: readonly Waiting[]): void {
    this.#underWay++;
    let counts = true;
    const stopCounting = () => {
      if (counts) this.#underWay--;
      counts = false;
    };
    const patience = setTimeout(() => {
      stopCounting();
      void this.#dispatch();
    }, PATIENCE_MS);
    const settle = (outcome: Outcome) => {
      clearTimeout(patience);
      stopCounting();
      this.#pool.releaseAfter(session, outcome);
      for (const [index, each] of batch.entries()) {
        const isSpoiled = exchange.isSpoiled(index, outcome);
        each.settle(isSpoiled ? "spoiled" : { outcome, rowVersion: exchange.rowVersions[index] });
      }
      void this.#dispatch();
    };
    const deadline = Math.min(...batch.map((each) => each.deadline));
    const writes = batch.map(({ write }) => write);
    const exchange = new CommitBatch(writes, { deadline, dialect: "postgres", settle });
    exchange.start(session);
  }
}
