import { type AdministerOptions, withAdministration } from "./administer.ts";
import { queryAll } from "./query.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import * as statements from "./statements.ts";
import { type Statement, textQuery } from "./statements.ts";
import { TYPE } from "./wire-writer.ts";

/** How the server runs one of the engine's statements. */
export interface PlanReport {
  /** As "scan_partition". */
  readonly statement: string;
  readonly sql: string;
  readonly plan: readonly string[];
  /** What is not as it should be. */
  readonly problems: readonly string[];
}

interface Expectation {
  readonly statement: Statement;
  /** The index condition holds both keys; more than one for a condition on each of two scans. */
  readonly isOrdered: boolean;
  /** A sharded server must ask one shard only. */
  readonly isInOnePartition: boolean;
}

const EXPECTATIONS: readonly Expectation[] = [
  expect(statements.GET_ONE, { isOrdered: false, isInOnePartition: true }),
  expect(statements.GET_MANY, { isOrdered: false, isInOnePartition: true }),
  expect(statements.GET_MANY_WITHIN, { isOrdered: false, isInOnePartition: true }),
  expect(statements.GET_MANY_OF_SHARD, { isOrdered: false, isInOnePartition: true }),
  expect(statements.GET_PAIR, { isOrdered: false, isInOnePartition: false }),
  expect(statements.GET_ACROSS, { isOrdered: false, isInOnePartition: false }),
  expect(statements.GET_ACROSS_WITHIN, { isOrdered: false, isInOnePartition: false }),
  expect(statements.SCAN_PARTITION, { isOrdered: true, isInOnePartition: true }),
  expect(statements.SCAN_PARTITION_TO, { isOrdered: true, isInOnePartition: true }),
  expect(statements.SCAN_ACROSS, { isOrdered: true, isInOnePartition: false }),
  expect(statements.SCAN_ACROSS_TO, { isOrdered: true, isInOnePartition: false }),
  expect(statements.SCAN_WANTED, { isOrdered: true, isInOnePartition: false }),
  expect(statements.UPDATE_ONE, { isOrdered: false, isInOnePartition: true }),
  expect(statements.DELETE_ONE, { isOrdered: false, isInOnePartition: true }),
  expect(statements.HOLD.own, { isOrdered: false, isInOnePartition: true }),
  expect(statements.HOLD.share, { isOrdered: false, isInOnePartition: true }),
  expect(statements.HOLD["share present"], { isOrdered: false, isInOnePartition: true }),
  expect(statements.LOCK.own, { isOrdered: false, isInOnePartition: true }),
  expect(statements.ASSERT_LOCKED, { isOrdered: false, isInOnePartition: true }),
  expect(statements.DELETE_HELD, { isOrdered: false, isInOnePartition: true }),
  expect(statements.DELETE_MANY, { isOrdered: false, isInOnePartition: true }),
];

/** `rowhouse engine explain`: the plans of the statements, with what is wrong about each. */
export function explainPostgres(options: AdministerOptions): Promise<readonly PlanReport[]> {
  return withAdministration(options, async (session, { dialect }) => {
    const reports: PlanReport[] = [];
    for (const expectation of EXPECTATIONS) {
      if (isUsed(expectation.statement, dialect)) {
        reports.push(await explain(session, expectation, dialect));
      }
    }
    return reports;
  });
}

function isUsed(statement: Statement, dialect: Dialect): boolean {
  const { LOCK, ASSERT_LOCKED, HOLD, GET_MANY, GET_MANY_OF_SHARD, GET_PAIR, GET_ACROSS } =
    statements;
  const { GET_MANY_WITHIN, GET_ACROSS_WITHIN, DELETE_HELD, DELETE_MANY, SCAN_WANTED } = statements;
  if (statement === DELETE_HELD || statement === SCAN_WANTED) return dialect === "postgres";
  if (statement === DELETE_MANY) return dialect !== "postgres";
  const onlyOnCitus: readonly Statement[] = [LOCK.own, ASSERT_LOCKED, GET_MANY_OF_SHARD];
  const neverOnCitus: readonly Statement[] = [
    ...Object.values(HOLD),
    GET_MANY,
    GET_MANY_WITHIN,
    GET_PAIR,
    GET_ACROSS,
    GET_ACROSS_WITHIN,
  ];
  return !(dialect === "citus" ? neverOnCitus : onlyOnCitus).includes(statement);
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
    { statement: textQuery(`PREPARE ${name}${declared} AS ${statement.text}`) },
    {
      statement: textQuery(`EXPLAIN (COSTS OFF) EXECUTE ${name} (${values.join(", ")})`),
      onRow: (row) => plan.push(row.text() ?? ""),
    },
    { statement: textQuery(`DEALLOCATE ${name}`) },
  ]);
  return {
    statement: (statement.name ?? "").replace(/^rh_/, ""),
    sql: statement.text,
    plan,
    problems: judgePlan(plan, expectation, dialect),
  };
}

/** What is wrong with a plan in the text form of EXPLAIN. */
export function judgePlan(
  plan: readonly string[],
  { isOrdered, isInOnePartition }: Pick<Expectation, "isOrdered" | "isInOnePartition">,
  dialect: Dialect,
): readonly string[] {
  const problems: string[] = [];
  const has = (pattern: RegExp) => plan.some((line) => pattern.test(line));
  if (dialect === "citus" && isInOnePartition && !has(/Task Count: 1$/)) {
    problems.push("Asks more than one shard.");
  }
  // The shapes of other relatives' plans are their own.
  if (dialect === "cockroach" || dialect === "yugabyte") return problems;
  if (has(/Seq Scan on rh_kv/)) problems.push("Reads the whole table.");
  if (has(/Bitmap Heap Scan on rh_kv/)) problems.push("Collects rows before it answers the first.");
  if (has(/^\s*(->\s*)?Gather/)) problems.push("Starts processes to help with a few rows.");
  if (isOrdered && has(/^\s*(->\s*)?(Incremental )?Sort/)) {
    problems.push("Sorts what the index has in order already.");
  }
  const conditions = plan.filter((line) => /Index Cond:/.test(line));
  if (!conditions.some((line) => /\bpk\b/.test(line) && /\bsk\b/.test(line))) {
    problems.push("The index condition does not hold both keys.");
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

function expect(statement: Statement, shape: Omit<Expectation, "statement">): Expectation {
  return { statement, ...shape };
}
