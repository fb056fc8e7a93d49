import { compareKeys } from "../key-codec.ts";
import type { OneKeyWrite } from "./commit-one.ts";
import { isTransient, type Outcome } from "./outcome.ts";
import type { Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";
import { SharedCommit } from "./shared-commit.ts";

/** Transactions in flight at once: some are flushed while others are gathered and sent. */
const BATCHES_MAX = 4;
/** A transaction that takes longer no longer counts: it waits for a rival, or for a standby that is away. */
const PATIENCE_MS = 200;
const BATCH_WRITES_MAX = 32;
/** No commit should wait for many bytes of others: a large value is worth a transaction of its own. */
const BATCH_BYTES_MAX = 256 * 1024;

/**
 * The outcome of a write. "spoiled": it did not happen, because another write of its transaction met an error.
 */
export type Gathered =
  | "spoiled"
  /** How the transaction ended, and what the statement returned. */
  | { readonly outcome: Outcome; readonly rowVersion: number | undefined };

interface Waiting {
  readonly write: OneKeyWrite;
  readonly deadline: number;
  readonly settle: (gathered: Gathered) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Puts commits of one key that arrive at the same time into one transaction. No commit waits for company:
 * with no transaction in flight it leaves at once, otherwise at the end of its turn of the event loop, and
 * commits that arrive while enough transactions are in flight leave together.
 */
export class GroupCommit {
  readonly #pool: SessionPool;
  readonly #waiting: Waiting[] = [];
  #underWay = 0;
  #isScheduled = false;
  #isAcquiring = false;

  constructor(pool: SessionPool) {
    this.#pool = pool;
  }

  /** @throws EngineError `Unavailable` if there is no connection by `deadline`, `Closed`. */
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

  /** Commits that arrive while a connection is being opened leave over it too. */
  async #dispatch(): Promise<void> {
    while (!this.#isAcquiring && this.#waiting.length > 0 && this.#underWay < BATCHES_MAX) {
      this.#isAcquiring = true;
      let session: Session;
      try {
        session = await this.#pool.acquire(this.#waiting[0]!.deadline);
      } catch (error) {
        const refused = this.#waiting.splice(0, isTransient(error) ? 1 : this.#waiting.length);
        for (const { reject } of refused) reject(error);
        continue;
      } finally {
        this.#isAcquiring = false;
      }
      this.#send(session, this.#take());
    }
  }

  /**
   * Takes commits in the order of arrival, then sorts them: they hold their keys in order as every commit does.
   */
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
    const exchange = new SharedCommit(writes, { deadline, dialect: "postgres", settle });
    exchange.start(session);
  }
}
