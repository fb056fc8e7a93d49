import type { Database, Plan } from "@rowhouse/patterns";
import { accessPathsOf } from "./access-paths.ts";
import { type ExplainedQuery, explainQueries } from "./declared-queries.ts";
import { heatOf, samplePartitions } from "./heat.ts";
import { alignColumns, type Outcome } from "./outcome.ts";
import type { Schema } from "./schema.ts";

export const SCANS = ["partition-scan", "table-scan"] as const;

export interface ExplainOptions {
  /** Declared queries with this plan or a more expensive one count as findings. */
  readonly failOn?: (typeof SCANS)[number];
  /** The maximum number of rows to read from each table. */
  readonly sample: number;
}

/** Explains the cost of a schema's queries and the spread of its load; with `database`, from samples of the tables. */
export async function explainSchema(
  schema: Schema,
  { failOn, sample }: ExplainOptions,
  database?: Database,
): Promise<Outcome> {
  const { connect } = await schema.library.load("@rowhouse/patterns");
  const { memory } = await schema.library.load("@rowhouse/patterns/testing");
  const offline = connect(memory());
  const entities = [...schema.entities.values()];
  const queries = await explainQueries(schema);
  const paths = entities.flatMap((entity) => accessPathsOf(offline, entity));
  const samples = new Map<string, ReturnType<typeof samplePartitions>>();
  const sampleOf = (database: Database, table: string) => {
    const held = samples.get(table) ?? samplePartitions(database, table, sample);
    samples.set(table, held);
    return held;
  };
  const heat = await Promise.all(
    entities.map(async (entity) => {
      const { name, table, rows } = entity;
      const { text } = heatOf(rows.partition, entity);
      return { name, table, heat: text, ...(database && (await sampleOf(database, table))) };
    }),
  );
  const found = queries.filter(({ explanation }) => isAsDearAs(explanation.plan, failOn));
  return {
    lines: [
      ...(queries.length > 0 ? ["declared queries", ...describe(queries), ""] : []),
      "queries that the keys serve, with example values",
      ...describe(paths),
      "",
      "partitions",
      ...heat.flatMap(({ name, table, heat: text, sampled, largest }) => [
        `  ${name} in ${table}: ${text}`,
        ...(largest ?? []).map(({ partitionKey, rows }) => {
          const of = sampled === sample ? `the first ${sampled}` : `${sampled}`;
          return `    ${Math.round((rows / (sampled ?? 1)) * 100)} % of ${of} rows in ${partitionKey}`;
        }),
      ]),
    ],
    json: { queries, paths, partitions: heat },
    found: found.length > 0,
  };
}

function isAsDearAs(plan: Plan, bound: ExplainOptions["failOn"]): boolean {
  const scans: readonly Plan[] = SCANS;
  return bound !== undefined && scans.indexOf(plan) >= scans.indexOf(bound);
}

function describe(queries: readonly Omit<ExplainedQuery, "indexes">[]): string[] {
  return alignColumns(
    queries.map(({ name, explanation: { plan, table, filter, requests, entities, notes } }) => [
      `  ${name}`,
      plan,
      `${requests} R`,
      `${entities} E`,
      [`${table}: ${filter || "no filter"}`, ...notes].join("; "),
    ]),
  );
}
