import { type KeyRange, READ_BY_ALL } from "../engine.ts";
import { compareKeys } from "../key-codec.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import type { Statement } from "./statements.ts";

/**
 * On a cluster, the table of the partitions that every node holds. Citus calls it a reference table: it is read on
 * any node, on each with what else the statement reads there, and a write to it commits on all nodes or on none.
 */
export const REFERENCE_TABLE = "rh_reference";

/** The part of a range, from its start on, that is in one table. */
export function partInOneTable(range: KeyRange, dialect: Dialect): KeyRange {
  if (dialect === "postgres") return range;
  const first = range.start.partition[0];
  for (let byte = (first ?? -1) + 1; byte < 256; byte++) {
    if (READ_BY_ALL.has(byte) === READ_BY_ALL.has(first)) continue;
    const end = { partition: Uint8Array.of(byte), sort: new Uint8Array() };
    return range.end && compareKeys(range.end, end) <= 0 ? range : { start: range.start, end };
  }
  return range;
}

export function isOnEveryNode(partition: Uint8Array, dialect: Dialect): boolean {
  return dialect === "citus" && READ_BY_ALL.has(partition[0]);
}

/** The statement for rows of a partition. */
export function inTableOf(
  partition: Uint8Array,
  statement: Statement,
  dialect: Dialect,
): Statement {
  return isOnEveryNode(partition, dialect) ? inReferenceTable(statement) : statement;
}

/** The statement that reads rows of a partition over this session: those that every node holds, from its node's copy. */
export function readOver(
  session: Session,
  partition: Uint8Array,
  statement: Statement,
  dialect: Dialect,
): Statement {
  if (!isOnEveryNode(partition, dialect)) return statement;
  return inTable(session.copyOfNames ?? REFERENCE_TABLE, statement);
}

export function inReferenceTable(statement: Statement): Statement {
  return inTable(REFERENCE_TABLE, statement);
}

const known = new WeakMap<Statement, Map<string, Statement>>();

function inTable(table: string, statement: Statement): Statement {
  const { name, text, parameterTypes } = statement;
  let inTables = known.get(statement);
  if (!inTables) {
    inTables = new Map();
    known.set(statement, inTables);
  }
  let built = inTables.get(table);
  if (!built) {
    const own = name === undefined ? undefined : `${name}_${table}`;
    built = { name: own, text: text.replaceAll("rh_kv", table), parameterTypes };
    inTables.set(table, built);
  }
  return built;
}
