import { ServiceError } from "@rowhouse/protocol/errors";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import { LIMITS } from "@rowhouse/protocol/limits";
import { KEPT_NOTE } from "@rowhouse/server/insight/advice/print-advice";
import { type QueryRemedy, readingOf, remedyOfQuery } from "@rowhouse/server/insight/query-remedy";
import { terminalText } from "@rowhouse/server/insight/terminal-text";
import { explain } from "@rowhouse/server/query/explain";
import type { Plan } from "@rowhouse/server/query/plan";
import { planQuery } from "@rowhouse/server/query/planner";
import { checkTableName } from "@rowhouse/server/table/table-name";
import type { Command } from "commander";
import { fetchSigned, messageIn, type SignedAnswer } from "./explain-request.ts";
import { ENDPOINT_HELP } from "./move/options.ts";

export interface ExplainOptions {
  readonly table: string;
  readonly against?: string;
  readonly json?: true;
}

export function addExplainCommand(program: Command): void {
  program
    .command("explain")
    .description("show what a query reads, and suggest a better query or key if there is one")
    .argument("<filter>", "the query's $filter; '' for none")
    .requiredOption("-t, --table <name>", "the table to query; required")
    .option(
      "--against <endpoint>",
      `also run the query at this endpoint and print its cost: ${ENDPOINT_HELP}`,
    )
    .option("--json", "print JSON")
    .action(async (filter: string, options: ExplainOptions) => {
      const { text, failure } = await explainFilter(filter, options, process.env);
      process.stdout.write(text);
      if (failure !== undefined) throw new Error(failure);
    });
}

/** What the command prints, and why the endpoint refused, if it did. @throws Error for an invalid filter or name. */
export async function explainFilter(
  filter: string,
  options: ExplainOptions,
  environment: NodeJS.ProcessEnv,
): Promise<{ readonly text: string; readonly failure: string | undefined }> {
  const { table, against } = options;
  checkName(table);
  const tree = filter.trim() === "" ? undefined : parse(filter);
  const plan = planQuery(tree);
  const remedy = remedyOfQuery(table, plan);
  const answer = against === undefined ? undefined : await ask(against, table, filter, environment);
  const failure =
    answer?.error === undefined
      ? undefined
      : `${answer.endpoint} answered ${answer.status}: ${answer.error}`;
  if (options.json) {
    const facts = { plan: explain(plan), class: plan.class, reading: readingOf(plan) };
    const printed = { table, filter, ...facts, remedy: remedy ?? null, answer };
    return { text: `${JSON.stringify(printed, null, 2)}\n`, failure };
  }
  // What an index of the server answers needs no other; in the cloud it would.
  const isIndexed = answer?.plan?.startsWith("index ") === true;
  const shown = remedy && isIndexed ? { ...remedy, kept: undefined } : remedy;
  const lines = [...describePlan(plan, shown), ...(answer ? describeAnswer(answer) : [])];
  return { text: terminalText(lines), failure };
}

function describePlan(plan: Plan, remedy: QueryRemedy): string[] {
  const lines = [`plan      ${explain(plan)}`, `meaning   ${readingOf(plan)}`];
  if (plan.residual)
    lines.push('          The filter after "where" is tested on every entity read.');
  if (remedy) {
    lines.push(`better    ${remedy.advice}`, `pattern   ${remedy.pattern}`);
    for (const key of remedy.layout) lines.push(`          ${key}`);
    if (remedy.kept) lines.push(`or        ${remedy.kept}`, `          ${KEPT_NOTE}`);
  } else lines.push("better    none: the keys answer this query");
  return lines;
}

function describeAnswer({ endpoint, status, plan, cost, more }: Asked): string[] {
  const lines = [`endpoint  ${endpoint} answered ${status}`];
  if (plan) lines.push(`its plan  ${plan}`);
  for (const part of cost?.split(", ") ?? []) {
    const [name = "", value = ""] = part.split("=");
    lines.push(`          ${name.padEnd(18)} ${value}`);
  }
  if (!cost && status < 300) lines.push("          (the endpoint reports no cost)");
  if (more) lines.push("          (this is the first of several pages)");
  return lines;
}

/** @throws Error with the service's message, and its status and error code. */
function parse(filter: string): FilterNode {
  try {
    return parseFilter(filter);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const { code, message, status } = error;
    throw new Error(`The service rejects this $filter (${status} ${code}): ${message}`, {
      cause: error,
    });
  }
}

interface Asked {
  readonly endpoint: string;
  readonly status: number;
  readonly plan: string | undefined;
  readonly cost: string | undefined;
  readonly more: boolean;
  readonly error: string | undefined;
}

async function ask(
  against: string,
  table: string,
  filter: string,
  environment: NodeJS.ProcessEnv,
): Promise<Asked> {
  const query = filter.trim() === "" ? "" : `$filter=${encodeURIComponent(filter)}`;
  const answer: SignedAnswer = await fetchSigned(against, `/${table}()`, query, environment);
  return {
    endpoint: answer.endpoint,
    status: answer.status,
    plan: answer.headers.get("x-rowhouse-plan") ?? undefined,
    cost: answer.headers.get("x-rowhouse-cost") ?? undefined,
    more: answer.headers.has("x-ms-continuation-nextpartitionkey"),
    error: answer.status < 300 ? undefined : messageIn(answer.body),
  };
}

function checkName(table: string): void {
  try {
    checkTableName(table);
  } catch (cause) {
    if (!(cause instanceof ServiceError)) throw cause;
    throw new Error(
      `"${table}" is not a table name: use ${LIMITS.tableNameLengthMin} to ${LIMITS.tableNameLengthMax} letters and digits, starting with a letter, but not "tables".`,
      { cause },
    );
  }
}
