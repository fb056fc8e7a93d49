import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import { executeOne, type OneKeyWrite } from "./commit-one.ts";
import type { Outcome } from "./outcome.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { BEGIN, COMMIT, SET_LOCK_TIMEOUT, type Statement } from "./statements.ts";

/**
 * Commits of one key each. One alone is one statement, atomic by itself on every server. Several, of callers
 * that know nothing of each other, share a transaction: one round trip, one commit record, one wait for the
 * disk. A failed check is not an error but a row that is not returned, so it stops no other commit; an error
 * stops all, and then nothing has happened.
 *
 * Several must be in the order of their keys, like those of a group, so that no two commits wait for each
 * other in a cycle. Two commits of one key take effect one after the other, as if each had been alone.
 */
export class SharedCommit extends CommitExchange {
  /** For each write: the version its row has now, or had; undefined if no row fits the check. */
  readonly rowVersions: (number | undefined)[];
  readonly #writes: readonly OneKeyWrite[];
  /** Sent before the first write of several. */
  readonly #before: readonly Statement[];
  /**
   * An error of a statement that commits by itself proves on PostgreSQL that nothing happened: it commits at Sync,
   * after it has succeeded. Citus may commit on a worker and fail afterwards.
   */
  readonly #dialect: Dialect;

  constructor(writes: readonly OneKeyWrite[], options: CommitExchangeOptions) {
    super(options);
    this.#writes = writes;
    this.#before = writes.length > 1 ? [BEGIN, SET_LOCK_TIMEOUT] : [];
    this.#dialect = options.dialect;
    this.rowVersions = new Array(writes.length).fill(undefined);
  }

  override start(session: Session): void {
    session.begin(this);
    for (const statement of this.#before) {
      session.bind(statement);
      session.execute();
    }
    for (const write of this.#writes) executeOne(session, write, this.#dialect);
    if (this.#before.length > 0) {
      session.bind(COMMIT);
      session.execute();
    }
    session.sync();
  }

  /**
   * Whether the outcome of the transaction says nothing about this write: the error occurred at another
   * write, or a rival kept this one waiting for longer than the others should wait.
   */
  isSpoiled(index: number, outcome: Outcome): boolean {
    if (outcome.kind !== "failed" || this.#writes.length === 1) return false;
    const failedAt = this.completed - this.#before.length;
    if (failedAt < 0 || failedAt >= this.#writes.length) return false;
    return failedAt !== index || outcome.error.sqlState === "55P03";
  }

  override row(row: RowReader): void {
    this.rowVersions[this.completed - this.#before.length] = row.int8();
  }

  protected override get isAtCommit(): boolean {
    const { length } = this.#before;
    if (length === 0) return this.completed > 0 || this.#dialect === "citus";
    return this.completed >= length + this.#writes.length;
  }
}
