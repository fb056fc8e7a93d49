import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import { executeOne, type OneKeyWrite } from "./commit-one.ts";
import type { RowReader } from "./row-reader.ts";
import type { Session } from "./session.ts";
import { BEGIN, COMMIT } from "./statements.ts";

/**
 * Commits of one key each. One alone is one statement, atomic by itself on every server. Several, of
 * callers who know nothing of each other, share a transaction: one round trip, one commit record, one
 * wait for the disk. A check that fails is no error but a row that does not come back, so it stops
 * nobody else; an error stops all, and then nothing has happened.
 *
 * Several must be in the order of their keys, as those of a group are, so that no two commits wait for
 * each other in a circle. Two of one key follow each other as if each had been alone.
 */
export class CommitBatch extends CommitExchange {
  /** For each write: the version its row has now, or had; undefined when no row fits the check. */
  readonly rowVersions: (number | undefined)[];
  readonly #writes: readonly OneKeyWrite[];
  /** Statements before the first write: BEGIN, or none. */
  readonly #before: 0 | 1;
  /**
   * Whether an error of a statement that commits by itself proves that nothing happened. PostgreSQL
   * commits it at Sync, after it has succeeded; Citus may have committed on a worker and then fail.
   */
  readonly #isAutocommitCertain: boolean;

  constructor(writes: readonly OneKeyWrite[], options: CommitExchangeOptions) {
    super(options);
    this.#writes = writes;
    this.#before = writes.length > 1 ? 1 : 0;
    this.#isAutocommitCertain = options.dialect === "postgres";
    this.rowVersions = new Array(writes.length).fill(undefined);
  }

  override start(session: Session): void {
    session.begin(this);
    const isTransaction = this.#before === 1;
    if (isTransaction) {
      session.bind(BEGIN);
      session.execute();
    }
    for (const write of this.#writes) executeOne(session, write);
    if (isTransaction) {
      session.bind(COMMIT);
      session.execute();
    }
    session.sync();
  }

  /** Whether what stopped all was an error at another write than this. */
  isSpoiled(index: number): boolean {
    const failedAt = this.completed - this.#before;
    return failedAt >= 0 && failedAt < this.#writes.length && failedAt !== index;
  }

  override row(row: RowReader): void {
    this.rowVersions[this.completed - this.#before] = row.int8();
  }

  protected override get isAtCommit(): boolean {
    if (this.#before === 0) return this.completed > 0 || !this.#isAutocommitCertain;
    return this.completed > this.#writes.length;
  }
}
