import type { Outcome } from "./outcome.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Exchange, Session, Tag } from "./session.ts";
import type { ServerError } from "./sql-state.ts";

export interface CommitExchangeOptions {
  readonly deadline: number;
  readonly dialect: Dialect;
  readonly settle: (outcome: Outcome) => void;
}

/** One attempt at a commit: counts its completed statements and reports how it ended. */
export abstract class CommitExchange implements Exchange {
  readonly deadline: number;
  protected completed = 0;
  readonly #settle: (outcome: Outcome) => void;
  #isRolledBack = false;
  #wasWarned = false;
  #error: ServerError | undefined;

  constructor(options: CommitExchangeOptions) {
    this.deadline = options.deadline;
    this.#settle = options.settle;
  }

  /** Sends the attempt. */
  abstract start(session: Session): void;
  abstract row(row: RowReader): void;
  /** Whether every statement before the commit itself has succeeded. */
  protected abstract get isAtCommit(): boolean;

  complete(tag: Tag): void {
    this.completed++;
    // COMMIT in a failed transaction is not an error: its tag says ROLLBACK.
    if (tag.isRollback) this.#isRolledBack = true;
  }

  warned(): void {
    this.#wasWarned = true;
  }

  failed(error: ServerError): void {
    this.#error ??= error;
  }

  ready(): void {
    if (this.#error) this.#settleFailed(this.#error);
    else if (this.#wasWarned) this.#settle({ kind: "lost", error: NOT_REPLICATED, isSent: true });
    else if (this.#isRolledBack) this.#settle({ kind: "lost", error: ROLLED_BACK, isSent: false });
    else this.#settle(DONE);
  }

  lost(error: Error, isSent: boolean): void {
    // A server that closes the connection reports it at the statement that it aborts: the statements behind
    // it, COMMIT among them, were never run. A pooler reports that it lost the server: all statements may
    // have run, since the server sends their answers only at Sync.
    if (this.#error?.isOfServer) this.#settleFailed(this.#error);
    else if (this.#error) this.#settle({ kind: "lost", error: this.#error, isSent });
    else this.#settle({ kind: "lost", error, isSent });
  }

  #settleFailed(error: ServerError): void {
    this.#settle({ kind: "failed", error, mayHaveHappened: this.isAtCommit });
  }
}

const DONE: Outcome = { kind: "done" };
const NOT_REPLICATED = new Error("The server did not wait for its synchronous standby.");
const ROLLED_BACK = new Error("The server rolled the commit back without an error.");
