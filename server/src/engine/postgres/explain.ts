import { withAdministration } from "./administer.ts";
import type { DatabaseOptions } from "./config.ts";
import { inReferenceTable } from "./placement.ts";
import { type Query, queryAll } from "./query.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import * as statements from "./statements.ts";
import { BEGIN, COMMIT, type Statement, textQuery } from "./statements.ts";
import { TYPE } from "./wire-writer.ts";

/** How the server runs one of the engine's statements. */
export interface PlanReport {
  /** For example "scan_partition". */
  readonly statement: string;
  readonly sql: string;
  readonly plan: readonly string[];
  /** What is wrong with the plan. */
  readonly problems: readonly string[];
}

interface Expectation {
  readonly statement: Statement;
  /** The servers that receive the statement. */
  readonly dialects: readonly Dialect[];
  /** The index has the rows in order, so the plan must not sort. */
  readonly isOrdered: boolean;
  /** A sharded server must ask one shard only. */
  readonly isInOnePartition: boolean;
}

type Shape = Pick<Expectation, "isOrdered" | "isInOnePartition">;

const POINTS: Shape = { isOrdered: false, isInOnePartition: true };
const POINTS_ACROSS: Shape = { isOrdered: false, isInOnePartition: false };
const PAGE: Shape = { isOrdered: true, isInOnePartition: true };
const PAGE_ACROSS: Shape = { isOrdered: true, isInOnePartition: false };

const DIALECTS: readonly Dialect[] = ["postgres", "citus"];
const POSTGRES: readonly Dialect[] = ["postgres"];
const CITUS: readonly Dialect[] = ["citus"];

const EXPECTATIONS: readonly Expectation[] = [
  expect(statements.GET_ONE, POINTS),
  expect(statements.GET_PAIR, POINTS_ACROSS, POSTGRES),
  expect(statements.GET_SECOND, POINTS, CITUS),
  expect(statements.GET_MANY, POINTS),
  expect(statements.GET_MANY_WITHIN, POINTS),
  expect(statements.GET_ACROSS, POINTS_ACROSS, POSTGRES),
  expect(statements.GET_ACROSS_WITHIN, POINTS_ACROSS, POSTGRES),
  expect(statements.SCAN_PARTITION, PAGE),
  expect(statements.SCAN_PARTITION_TO, PAGE),
  expect(statements.SCAN_ACROSS, PAGE_ACROSS),
  expect(statements.SCAN_ACROSS_TO, PAGE_ACROSS),
  expect(statements.SCAN_WANTED, PAGE_ACROSS, POSTGRES),
  expect(statements.UPDATE_ONE, POINTS),
  expect(statements.DELETE_ONE, POINTS),
  expect(statements.INSERT_ONE_ON_PREMISE, POINTS, POSTGRES),
  expect(statements.UPSERT_ONE_ON_PREMISE, POINTS, POSTGRES),
  expect(statements.UPDATE_ONE_ON_PREMISE, POINTS, POSTGRES),
  expect(statements.DELETE_ONE_ON_PREMISE, POINTS, POSTGRES),
  expect(statements.ASSERT_PREMISE, POINTS, POSTGRES),
  expect(statements.HOLD.own, POINTS),
  expect(statements.HOLD.share, POINTS),
  expect(statements.HOLD["share present"], POINTS),
  expect(statements.DELETE_HELD, POINTS, POSTGRES),
  expect(statements.deleteManyStatement(2), POINTS, CITUS),
  expect(statements.READ_LOCKED, POINTS),
  expect(inReferenceTable(statements.ASSERT_PREMISE), POINTS, CITUS),
  ...[statements.GET_ONE, statements.SCAN_PARTITION, statements.HOLD.own].map((statement) =>
    expect(inReferenceTable(statement), PAGE, CITUS),
  ),
];

function expect(statement: Statement, shape: Shape, dialects = DIALECTS): Expectation {
  return { statement, dialects, ...shape };
}

/** `rowhouse engine explain`: the plans of the statements, and what is wrong with each. */
export function explainPostgres(database: DatabaseOptions): Promise<readonly PlanReport[]> {
  return withAdministration(database, async (session, { dialect }) => {
    const reports: PlanReport[] = [];
    for (const expectation of EXPECTATIONS) {
      if (expectation.dialects.includes(dialect)) {
        reports.push(await explain(session, expectation, dialect));
      }
    }
    return reports;
  });
}

async function explain(
  session: Session,
  expectation: Expectation,
  dialect: Dialect,
): Promise<PlanReport> {
  const { statement } = expectation;
  const name = `explain_${statement.name}`;
  const types = statement.parameterTypes.map((type) => SQL_TYPES[type]);
  const values = statement.parameterTypes.map((type) => SAMPLES[type]);
  const declared = types.length > 0 ? ` (${types.join(", ")})` : "";
  const plan: string[] = [];
  await queryAll(session, [
    { statement: BEGIN },
    ...(dialect === "citus" ? WORKERS_SETTINGS : []),
    { statement: textQuery(`PREPARE ${name}${declared} AS ${statement.text}`) },
    {
      statement: textQuery(`EXPLAIN (COSTS OFF) EXECUTE ${name} (${values.join(", ")})`),
      onRow: (row) => plan.push(row.text() ?? ""),
    },
    { statement: textQuery(`DEALLOCATE ${name}`) },
    { statement: COMMIT },
  ]);
  return {
    statement: (statement.name ?? "").replace(/^rh_/, ""),
    sql: statement.text,
    plan,
    problems: judgePlan(plan, expectation, dialect),
  };
}

/**
 * A worker reads a shard of a few pages whole, which is right, and plans anew as it grows. To see what it will do
 * then, it is told to use an index if it can.
 */
const WORKERS_SETTINGS: readonly Query[] = [
  "SET LOCAL citus.propagate_set_commands = 'local'",
  "SET LOCAL enable_seqscan = off",
].map((sql) => ({ statement: textQuery(sql) }));

/** The problems of a plan in the text form of EXPLAIN. */
export function judgePlan(
  plan: readonly string[],
  { isOrdered, isInOnePartition }: Shape,
  dialect: Dialect,
): readonly string[] {
  const problems: string[] = [];
  if (
    dialect === "citus" &&
    isInOnePartition &&
    !plan.some((line) => /Task Count: 1$/.test(line))
  ) {
    problems.push("Queries more than one shard.");
  }
  // What is above it, the coordinator does: it merges what the shards return.
  const rows = plan.slice(plan.findIndex((line) => /-> {2}Task$/.test(line)) + 1);
  const has = (pattern: RegExp) => rows.some((line) => pattern.test(line));
  if (has(/Seq Scan on rh_/)) problems.push("Scans the whole table.");
  if (has(/Bitmap Heap Scan on rh_/))
    problems.push("Collects all rows before it returns the first (a bitmap scan).");
  if (has(/^\s*(->\s*)?Gather/)) problems.push("Starts parallel worker processes for a few rows.");
  if (isOrdered && has(/^\s*(->\s*)?(Incremental )?Sort/)) {
    problems.push("Sorts rows that the index could return in order.");
  }
  const conditions = rows.filter((line) => /Index Cond:/.test(line));
  if (!conditions.some((line) => /\bpk\b/.test(line) && /\bsk\b/.test(line))) {
    problems.push("The index condition does not contain both keys, pk and sk.");
  }
  return problems;
}

const SQL_TYPES: Readonly<Record<number, string>> = {
  [TYPE.bytea]: "bytea",
  [TYPE.int8]: "bigint",
  [TYPE.byteaArray]: "bytea[]",
  [TYPE.int8Array]: "bigint[]",
};

const SAMPLES: Readonly<Record<number, string>> = {
  [TYPE.bytea]: "'\\x61'",
  [TYPE.int8]: "1",
  [TYPE.byteaArray]: "ARRAY['\\x61', '\\x62']::bytea[]",
  [TYPE.int8Array]: "ARRAY[1, 2]::bigint[]",
};
