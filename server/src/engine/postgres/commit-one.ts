import type { Check, CommitResult, Key } from "../engine.ts";
import { inTableOf } from "./placement.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { DELETE_ONE, INSERT_ONE, type Statement, UPDATE_ONE, UPSERT_ONE } from "./statements.ts";

/** A commit of one key. */
export interface OneKeyWrite {
  readonly key: Key;
  readonly expected: Check["expected"] | undefined;
  /** Undefined for a deletion. */
  readonly value: Uint8Array | undefined;
  readonly version: number;
}

/**
 * Sends a commit of one key, one statement. It returns the version of the row, or no row if the check does
 * not hold: see `judgeOne`. Under READ COMMITTED an UPDATE that waited for a rival tests its condition again
 * on the rival's row, so exactly one of many rivals wins; at stricter isolation the others get 40001.
 */
export function executeOne(session: Session, write: OneKeyWrite, dialect: Dialect): void {
  const { key, expected, value, version } = write;
  const isChecked = expected !== undefined && expected !== "absent";
  const writer = session.bind(inTableOf(key.partition, statementOf(write), dialect));
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
}

/** The result of a committed statement, from the row that it returned, or did not. */
export function judgeOne(
  { value, expected }: OneKeyWrite,
  rowVersion: number | undefined,
): CommitResult {
  if (rowVersion !== undefined) {
    return { committed: true, versions: value === undefined ? [] : [rowVersion] };
  }
  // Deleting an absent key is allowed.
  const isDone = value === undefined && expected === undefined;
  return isDone ? { committed: true, versions: [] } : { committed: false, failedCheck: 0 };
}

function statementOf({ value, expected }: OneKeyWrite): Statement {
  if (value === undefined) return DELETE_ONE;
  if (expected === undefined) return UPSERT_ONE;
  return expected === "absent" ? INSERT_ONE : UPDATE_ONE;
}
