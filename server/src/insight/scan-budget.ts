import { ServiceError } from "@rowhouse/protocol/errors";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { PLAN_CLASSES, type PlanClass } from "../query/plan.ts";
import { cureOfQuery, shapeOf } from "./cure.ts";
import type { Insight, QueryCost, QueryFacts } from "./insight.ts";
import type { ScanRule, ScanRules } from "./scan-budget-rules.ts";

/** Queries of one kind that were over budget. */
export interface Overrun {
  readonly account: string;
  readonly table: string;
  readonly class: PlanClass;
  /** The filter without its constants. */
  readonly shape: string;
  readonly reason: string;
  /** The first of them, as sent. */
  readonly example: string;
  readonly plan: string;
  readonly count: number;
  readonly refused: number;
  readonly entitiesRead: number;
  readonly entitiesReturned: number;
  readonly cure: string;
}

export interface ScanSummary {
  readonly queries: number;
  readonly overBudget: number;
  readonly refused: number;
  readonly strict: boolean;
  /** Most frequent first. Kinds beyond the first 500 are counted above and not listed. */
  readonly overruns: readonly Overrun[];
}

const OVERRUNS_MAX = 500;

/** Holds queries to rules. Told last of all: what it refuses was still read, and counts elsewhere. */
export class ScanBudget implements Insight {
  readonly #strict: boolean;
  readonly #general: readonly ScanRule[];
  readonly #byTable = new Map<string, ScanRule[]>();
  readonly #onOverrun: (overrun: Overrun) => void;
  readonly #overruns = new Map<string, Overrun>();
  #queries = 0;
  #overBudget = 0;
  #refused = 0;

  /** @param onOverrun told of each query over budget, with the counts of its kind so far */
  constructor({ strict, rules }: ScanRules, onOverrun: (overrun: Overrun) => void = () => {}) {
    this.#strict = strict;
    this.#onOverrun = onOverrun;
    this.#general = rules.filter(({ table }) => table === undefined);
    for (const rule of rules) {
      if (rule.table === undefined) continue;
      const name = rule.table.toLowerCase();
      this.#byTable.set(name, [...(this.#byTable.get(name) ?? []), rule]);
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

  admitWrite(): void {}

  summary(): ScanSummary {
    return {
      queries: this.#queries,
      overBudget: this.#overBudget,
      refused: this.#refused,
      strict: this.#strict,
      overruns: [...this.#overruns.values()].sort((a, b) => b.count - a.count),
    };
  }

  #rulesFor(table: string): readonly ScanRule[] {
    if (this.#byTable.size === 0) return this.#general;
    return this.#byTable.get(table.toLowerCase()) ?? this.#general;
  }

  #judgeClass({ table, plan }: QueryFacts): string | undefined {
    const rank = PLAN_CLASSES.indexOf(plan.class);
    for (const rule of this.#rulesFor(table)) {
      if (rule.allow || rule.class === undefined) continue;
      if (rank >= PLAN_CLASSES.indexOf(rule.class)) return `no ${rule.class}`;
    }
    return undefined;
  }

  #judgeCost({ table }: QueryFacts, cost: QueryCost): string | undefined {
    const { entitiesRead, entitiesReturned } = cost;
    for (const { allow, density, from = 0, read } of this.#rulesFor(table)) {
      if (allow) continue;
      if (read !== undefined && entitiesRead > read) return `read ${read}`;
      if (density === undefined || entitiesRead < Math.max(from, 1)) continue;
      if (entitiesReturned / entitiesRead < density) return `density ${density}`;
    }
    return undefined;
  }

  /** @throws ServiceError in strict mode */
  #over(query: QueryFacts, reason: string, cost: QueryCost | undefined): void {
    const { account, table, plan, planText, filter } = query;
    this.#overBudget++;
    if (this.#strict) this.#refused++;
    const shape = filter === undefined || filter === "" ? "" : shapeOf(parseFilter(filter));
    const kind = `${account}/${table}/${plan.class}/${shape}`;
    const known = this.#overruns.get(kind);
    const cure = known?.cure ?? curePhrase(query);
    const overrun: Overrun = {
      ...{ account, table, shape, reason, cure, class: plan.class },
      example: known?.example ?? filter ?? "",
      plan: known?.plan ?? planText,
      count: (known?.count ?? 0) + 1,
      refused: (known?.refused ?? 0) + (this.#strict ? 1 : 0),
      entitiesRead: (known?.entitiesRead ?? 0) + (cost?.entitiesRead ?? 0),
      entitiesReturned: (known?.entitiesReturned ?? 0) + (cost?.entitiesReturned ?? 0),
    };
    if (known || this.#overruns.size < OVERRUNS_MAX) this.#overruns.set(kind, overrun);
    this.#onOverrun(overrun);
    if (!this.#strict) return;
    const spent = cost
      ? `it read ${cost.entitiesRead} entities to return ${cost.entitiesReturned}`
      : "nothing was read";
    throw new ServiceError("ScanBudgetExceeded", {
      message:
        `The query of ${table} is over the scan budget of this server ("${reason}"): ` +
        `${planText.slice(0, 500)}; ${spent}. ${cure}`,
    });
  }
}

function curePhrase({ table, plan }: QueryFacts): string {
  const cure = cureOfQuery(table, plan);
  if (!cure) return "Ask for less: a narrower range, or a page at a time.";
  return `${cure.advice} (${[cure.pattern, ...cure.layout].join("; ")})`;
}
