import { ServiceError } from "@rowhouse/protocol/errors";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { PLAN_CLASSES, type PlanClass } from "../query/plan.ts";
import { detachedString } from "./detached-string.ts";
import type { Insight, QueryCost, QueryFacts } from "./insight.ts";
import { type Metric, single } from "./prometheus.ts";
import { remedyOfQuery, shapeOf } from "./query-remedy.ts";
import type { ScanRule, ScanRules } from "./scan-budget-rules.ts";

/** Queries of one kind that were over budget. */
export interface Overrun {
  readonly account: string;
  readonly table: string;
  readonly class: PlanClass;
  /** The filter without its constants. */
  readonly shape: string;
  readonly reason: string;
  /** The filter of the first of them, as sent. */
  readonly example: string;
  readonly plan: string;
  readonly count: number;
  readonly refused: number;
  readonly entitiesRead: number;
  readonly entitiesReturned: number;
  readonly remedy: string;
}

export interface ScanSummary {
  readonly queries: number;
  readonly overBudget: number;
  readonly refused: number;
  readonly strict: boolean;
  /** Most frequent first. Kinds beyond the first 500 are counted above but not listed. */
  readonly overruns: readonly Overrun[];
}

const OVERRUNS_MAX = 500;
/** Limit for each text of a kind: all kinds together stay below 10 MiB. */
const TEXT_LENGTH_MAX = 2000;

/** One summary of several processes, which held their queries to the same rules. */
export function joinSummaries(parts: readonly ScanSummary[]): ScanSummary {
  const overruns = new Map<string, Overrun>();
  for (const each of parts.flatMap((part) => part.overruns)) {
    const kind = kindOf(each);
    const known = overruns.get(kind);
    const both = known && {
      ...known,
      count: known.count + each.count,
      refused: known.refused + each.refused,
      entitiesRead: known.entitiesRead + each.entitiesRead,
      entitiesReturned: known.entitiesReturned + each.entitiesReturned,
    };
    if (known || overruns.size < OVERRUNS_MAX) overruns.set(kind, both ?? each);
  }
  const sum = (count: "queries" | "overBudget" | "refused") =>
    parts.reduce((total, part) => total + part[count], 0);
  return {
    queries: sum("queries"),
    overBudget: sum("overBudget"),
    refused: sum("refused"),
    strict: parts.some(({ strict }) => strict),
    overruns: [...overruns.values()].sort((a, b) => b.count - a.count),
  };
}

function kindOf({
  account,
  table,
  class: planClass,
  shape,
}: Pick<Overrun, "account" | "table" | "class" | "shape">): string {
  return `${account}/${table}/${planClass}/${shape}`;
}

/** A table's rules, prepared for lookup: each query may use them twice. */
interface CompiledRules {
  /** Classes at or after this index in `PLAN_CLASSES` are over budget, for `reason`. */
  readonly rank: number;
  readonly reason: string;
  readonly limits: readonly ScanRule[];
}

function compileRules(rules: readonly ScanRule[]): CompiledRules {
  const binding = rules.some(({ allow }) => allow) ? [] : rules;
  const classes = binding.flatMap((rule) => rule.class ?? []);
  const ranks = classes.map((name) => PLAN_CLASSES.indexOf(name));
  const rank = Math.min(...ranks, PLAN_CLASSES.length);
  const limits = binding.filter(({ density, read }) => density !== undefined || read !== undefined);
  return { rank, reason: `no ${PLAN_CLASSES[rank]}`, limits };
}

/** Checks queries against rules. It comes last: what it refuses has still been read, and counts elsewhere. */
export class ScanBudget implements Partial<Insight> {
  readonly #strict: boolean;
  readonly #general: CompiledRules;
  readonly #byTable = new Map<string, CompiledRules>();
  readonly #onOverrun: (overrun: Overrun) => void;
  readonly #overruns = new Map<string, Overrun>();
  #queries = 0;
  #overBudget = 0;
  #refused = 0;

  /** @param onOverrun called for each query over budget, with the counts of its kind so far */
  constructor({ strict, rules }: ScanRules, onOverrun: (overrun: Overrun) => void = () => {}) {
    this.#strict = strict;
    this.#onOverrun = onOverrun;
    const of = (name: string | undefined) =>
      compileRules(rules.filter(({ table }) => table?.toLowerCase() === name));
    this.#general = of(undefined);
    for (const { table } of rules) {
      const name = table?.toLowerCase();
      if (name !== undefined) this.#byTable.set(name, of(name));
    }
  }

  admitQuery(query: QueryFacts): void {
    if (!this.#strict) return;
    const reason = this.#judgeClass(query);
    if (reason !== undefined) {
      this.#queries++;
      this.#over(query, reason, undefined);
    }
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    this.#queries++;
    const reason = this.#judgeClass(query) ?? this.#judgeCost(query, cost);
    if (reason !== undefined) this.#over(query, reason, cost);
  }

  summary(): ScanSummary {
    return {
      queries: this.#queries,
      overBudget: this.#overBudget,
      refused: this.#refused,
      strict: this.#strict,
      overruns: [...this.#overruns.values()].sort((a, b) => b.count - a.count),
    };
  }

  /** All queries over budget; refusals with an error code show them only in strict mode. */
  metrics(): Metric[] {
    const name = "rowhouse_scan_budget_overruns_total";
    return [single(name, "counter", "Queries over the scan budget.", this.#overBudget)];
  }

  #rulesFor(table: string): CompiledRules {
    if (this.#byTable.size === 0) return this.#general;
    return this.#byTable.get(table.toLowerCase()) ?? this.#general;
  }

  #judgeClass({ table, class: planClass }: QueryFacts): string | undefined {
    const { rank, reason } = this.#rulesFor(table);
    return PLAN_CLASSES.indexOf(planClass) < rank ? undefined : reason;
  }

  #judgeCost({ table }: QueryFacts, cost: QueryCost): string | undefined {
    const { entitiesRead, entitiesReturned } = cost;
    for (const { density, from = 0, read } of this.#rulesFor(table).limits) {
      if (read !== undefined && entitiesRead > read) return `read ${read}`;
      if (density === undefined || entitiesRead < Math.max(from, 1)) continue;
      if (entitiesReturned / entitiesRead < density) return `density ${density}`;
    }
    return undefined;
  }

  /** @throws ServiceError in strict mode */
  #over(query: QueryFacts, reason: string, cost: QueryCost | undefined): void {
    const { account, table, class: planClass, planText, filter } = query;
    this.#overBudget++;
    if (this.#strict) this.#refused++;
    const shape = filter?.trim() ? kept(shapeOf(parseFilter(filter))) : "";
    const kind = kindOf({ account, table, class: planClass, shape });
    const known = this.#overruns.get(kind);
    const before: Overrun = known ?? {
      ...{ account, table: detachedString(table), class: planClass, shape, reason },
      ...{ example: kept(filter ?? ""), plan: kept(planText), remedy: kept(remedyPhrase(query)) },
      ...{ count: 0, refused: 0, entitiesRead: 0, entitiesReturned: 0 },
    };
    const overrun: Overrun = {
      ...{ ...before, reason },
      count: before.count + 1,
      refused: before.refused + (this.#strict ? 1 : 0),
      entitiesRead: before.entitiesRead + (cost?.entitiesRead ?? 0),
      entitiesReturned: before.entitiesReturned + (cost?.entitiesReturned ?? 0),
    };
    if (known || this.#overruns.size < OVERRUNS_MAX) this.#overruns.set(kind, overrun);
    this.#onOverrun(overrun);
    if (!this.#strict) return;
    const spent = cost
      ? `it read ${cost.entitiesRead} entities to return ${cost.entitiesReturned}`
      : "nothing was read";
    throw new ServiceError("ScanBudgetExceeded", {
      message:
        `This query of ${table} is over the scan budget of the server ("${reason}"): ` +
        `${planText.slice(0, 500)}; ${spent}. ${before.remedy}`,
    });
  }
}

/** The part of a text to store after its query has ended: limited in length. */
function kept(text: string): string {
  return text.length <= TEXT_LENGTH_MAX
    ? detachedString(text)
    : `${detachedString(text.slice(0, TEXT_LENGTH_MAX))}...`;
}

function remedyPhrase({ table, plan }: QueryFacts): string {
  const remedy = remedyOfQuery(table, plan);
  if (!remedy) return "Read less: query a narrower range, or smaller pages.";
  return `${remedy.advice} (${[remedy.pattern, ...remedy.layout].join("; ")})`;
}
