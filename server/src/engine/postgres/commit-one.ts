import {
  type Check,
  type CommitResult,
  type Key,
  PREMISE_FAILED,
  type Premise,
} from "../engine.ts";
import { inTableOf, readOver } from "./placement.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import {
  ASSERT_PREMISE,
  DELETE_ONE,
  DELETE_ONE_ON_PREMISE,
  INSERT_ONE,
  INSERT_ONE_ON_PREMISE,
  type Statement,
  UPDATE_ONE,
  UPDATE_ONE_ON_PREMISE,
  UPSERT_ONE,
  UPSERT_ONE_ON_PREMISE,
} from "./statements.ts";

/** A commit of one key. */
export interface OneKeyWrite {
  readonly key: Key;
  readonly expected: Check["expected"] | undefined;
  /** Undefined for a deletion. */
  readonly value: Uint8Array | undefined;
  readonly version: number;
  /** A loose one. Never with a deletion without a check, which may find no row. */
  readonly premise?: Premise | undefined;
}

/**
 * Sends a commit of one key, one statement. It returns the version of the row, or no row if the check does
 * not hold: see `judgeOne`. Under READ COMMITTED an UPDATE that waited for a rival tests its condition again
 * on the rival's row, so exactly one of many rivals wins; at stricter isolation the others get 40001.
 */
export function executeOne(session: Session, write: OneKeyWrite, dialect: Dialect): void {
  const { key, expected, value, version } = write;
  const premise = assertedBefore(write, dialect) ? undefined : write.premise;
  const isChecked = expected !== undefined && expected !== "absent";
  const writer = session.bind(
    inTableOf(key.partition, statementOf(write, premise !== undefined), dialect),
  );
  writer.bytes(key.partition);
  writer.bytes(key.sort);
  if (value !== undefined) {
    writer.int8(version);
    writer.bytes(value);
  }
  if (value === undefined || isChecked) {
    writer.int8(typeof expected === "number" ? expected : -1);
  }
  if (premise) {
    writer.bytes(premise.key.partition);
    writer.bytes(premise.key.sort);
    writer.int8(premise.version);
  }
  session.execute();
}

/** The premise if it needs a statement of its own before that of the write: `assertPremise`. */
export function assertedBefore({ premise }: OneKeyWrite, dialect: Dialect): Premise | undefined {
  return dialect === "citus" ? premise : undefined;
}

/** Sends a statement that fails with 22012 unless a loose premise holds, and stops what stands behind it. */
export function assertPremise(session: Session, { key, version }: Premise, dialect: Dialect): void {
  const writer = session.bind(readOver(session, key.partition, ASSERT_PREMISE, dialect));
  writer.bytes(key.partition);
  writer.bytes(key.sort);
  writer.int8(version);
  session.execute();
}

/** The result of a committed statement, from the row that it returned, or did not. */
export function judgeOne(
  { value, expected, premise }: OneKeyWrite,
  rowVersion: number | undefined,
): CommitResult {
  if (rowVersion !== undefined) {
    return { committed: true, versions: value === undefined ? [] : [rowVersion] };
  }
  if (premise) return { committed: false, failedCheck: PREMISE_FAILED };
  // Deleting an absent key is allowed.
  const isDone = value === undefined && expected === undefined;
  return isDone ? { committed: true, versions: [] } : { committed: false, failedCheck: 0 };
}

function statementOf({ value, expected }: OneKeyWrite, onPremise: boolean): Statement {
  if (value === undefined) return onPremise ? DELETE_ONE_ON_PREMISE : DELETE_ONE;
  if (expected === undefined) return onPremise ? UPSERT_ONE_ON_PREMISE : UPSERT_ONE;
  if (expected === "absent") return onPremise ? INSERT_ONE_ON_PREMISE : INSERT_ONE;
  return onPremise ? UPDATE_ONE_ON_PREMISE : UPDATE_ONE;
}
