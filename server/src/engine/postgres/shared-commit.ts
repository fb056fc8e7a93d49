import type { Premise } from "../engine.ts";
import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import { assertedBefore, assertPremise, executeOne, type OneKeyWrite } from "./commit-one.ts";
import type { Outcome } from "./outcome.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import type { ServerError } from "./sql-state.ts";
import { BEGIN, COMMIT, SET_LOCK_TIMEOUT, type Statement } from "./statements.ts";

const BEFORE_SEVERAL: readonly Statement[] = [BEGIN, SET_LOCK_TIMEOUT];

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
  /** Whether they are a transaction of BEGIN and COMMIT. */
  readonly #areSeveral: boolean;
  /** Of the only write; undefined if its own statement looks at it. */
  readonly #asserted: Premise | undefined;
  /** Statements before those of the writes. */
  readonly #before: number;
  /**
   * An error of a statement that commits by itself proves on PostgreSQL that nothing happened: it commits at Sync,
   * after it has succeeded. Citus may commit on a worker and fail afterwards.
   */
  readonly #dialect: Dialect;

  constructor(writes: readonly OneKeyWrite[], options: CommitExchangeOptions) {
    super(options);
    const { dialect } = options;
    this.#writes = writes;
    this.#areSeveral = writes.length > 1;
    this.#asserted = assertedBefore(writes[0]!, dialect);
    this.#before = this.#areSeveral ? BEFORE_SEVERAL.length : this.#asserted ? 1 : 0;
    this.#dialect = dialect;
    this.rowVersions = new Array(writes.length).fill(undefined);
  }

  override start(session: Session): void {
    session.begin(this);
    if (this.#areSeveral) for (const statement of BEFORE_SEVERAL) execute(session, statement);
    else if (this.#asserted) assertPremise(session, this.#asserted, this.#dialect);
    for (const write of this.#writes) executeOne(session, write, this.#dialect);
    if (this.#areSeveral) execute(session, COMMIT);
    session.sync();
  }

  /**
   * Whether the outcome of the transaction says nothing about this write: the error occurred at another
   * write, or a rival kept this one waiting for longer than the others should wait.
   */
  isSpoiled(index: number, outcome: Outcome): boolean {
    if (outcome.kind !== "failed" || this.#writes.length === 1) return false;
    const failedAt = this.completed - this.#before;
    if (failedAt < 0 || failedAt >= this.#writes.length) return false;
    return failedAt !== index || outcome.error.sqlState === "55P03";
  }

  /** Whether this error of the transaction says that the premise of the only write does not hold. */
  isPremiseUntrue({ fault }: ServerError): boolean {
    return this.#asserted !== undefined && this.completed === 0 && fault === "check";
  }

  override row(row: RowReader): void {
    const nth = this.completed - this.#before;
    if (nth >= 0) this.rowVersions[nth] = row.int8();
  }

  protected override get isAtCommit(): boolean {
    if (this.#areSeveral) return this.completed >= this.#before + this.#writes.length;
    return this.completed >= this.#before + (this.#dialect === "citus" ? 0 : 1);
  }
}

function execute(session: Session, statement: Statement): void {
  session.bind(statement);
  session.execute();
}
