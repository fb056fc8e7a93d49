import type { Check, Key } from "../engine.ts";
import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import type { RowReader } from "./row-reader.ts";
import type { Session } from "./session.ts";
import { DELETE_ONE, INSERT_ONE, type Statement, UPDATE_ONE, UPSERT_ONE } from "./statements.ts";

/** What a commit of one key does. */
export interface OneKeyWrite {
  readonly key: Key;
  readonly expected: Check["expected"] | undefined;
  /** Undefined: it is deleted. */
  readonly value: Uint8Array | undefined;
  readonly version: number;
}

/**
 * A commit of one key: one statement, atomic by itself on every server. Under READ COMMITTED an
 * UPDATE that waited for a rival tests its condition again on the rival's row, so exactly one of
 * many rivals wins; at stricter isolation the others get 40001.
 */
export class CommitOne extends CommitExchange {
  /** The version that the row has now, or had; undefined when no row fits the check. */
  rowVersion: number | undefined;
  readonly #write: OneKeyWrite;
  /**
   * Whether an error of a statement that commits by itself proves that nothing happened. PostgreSQL
   * commits it at Sync, after it has succeeded; Citus may have committed on a worker and then fail.
   */
  readonly #isAutocommitCertain: boolean;

  constructor(write: OneKeyWrite, options: CommitExchangeOptions) {
    super(options);
    this.#write = write;
    this.#isAutocommitCertain = options.dialect === "postgres";
  }

  override start(session: Session): void {
    const { key, expected, value, version } = this.#write;
    const isChecked = expected !== undefined && expected !== "absent";
    session.begin(this);
    const writer = session.bind(statementOf(this.#write));
    writer.bytes(key.partition);
    writer.bytes(key.sort);
    if (value !== undefined) {
      writer.int8(version);
      writer.bytes(value);
    }
    if (value === undefined || isChecked) {
      writer.int8(typeof expected === "number" ? expected : -1);
    }
    session.execute();
    session.sync();
  }

  override row(row: RowReader): void {
    this.rowVersion = row.int8();
  }

  protected override get isAtCommit(): boolean {
    return this.completed > 0 || !this.#isAutocommitCertain;
  }
}

function statementOf({ value, expected }: OneKeyWrite): Statement {
  if (value === undefined) return DELETE_ONE;
  if (expected === undefined) return UPSERT_ONE;
  return expected === "absent" ? INSERT_ONE : UPDATE_ONE;
}
