import { text } from "./ports/edm.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { EntityKey, Page } from "./ports/tables.ts";
import { type Filter, printFilter } from "./query/filter.ts";
import type { PageRead } from "./query/query.ts";
import { type Clock, systemClock } from "./store/clock.ts";
import { type Layer, mutationsOf, type PortCall } from "./store/layer.ts";

/** What running shows of a design that does not fit its use. */
export type Warning =
  /** A query that throws away most of what is read for it: it lacks an index, or another key. */
  | {
      readonly kind: "low density";
      readonly table: string;
      /** Without the values that were looked for. */
      readonly filter: string;
      /** Of the entities read, the share that was returned. */
      readonly density: number;
    }
  /** Many writers change the same rows. */
  | {
      readonly kind: "contention";
      readonly table: string;
      /** Of the writes on condition that nobody wrote in between, the share that lost. */
      readonly rate: number;
    }
  /** An index that other software writes past, or that is not repaired. */
  | {
      readonly kind: "stale entries";
      /** `Employee.email` */
      readonly index: string;
      /** Of the entries that reads checked, the share whose entity does not have the value. */
      readonly rate: number;
    }
  /** A partition is asked for half of what it can do. */
  | {
      readonly kind: "hot partition";
      readonly table: string;
      readonly partitionKey: string;
      readonly entitiesPerSecond: number;
    };

/** For `connect`: `connect({ ...endpoints, ...warnings(log) })`. */
export interface Watch {
  readonly meter: Layer;
  readonly onPage: (page: PageRead) => void;
}

const DENSITY_MIN = 0.1;
const CONTENTION_MAX = 0.05;
const STALE_MAX = 0.01;
/** Shares are told of more than this many, then counted anew. */
const SAMPLE = 100;
/** Beyond this many shapes of queries, counting starts over: a program has few. */
const TALLIES_MAX = 1000;
const ENTITIES_PER_SECOND_MAX = 1000;
const WINDOW_S = 10;

/** Tells `onWarning` when what it sees goes beyond its limits, again for every sample that does. */
export function warnings(onWarning: (warning: Warning) => void, clock: Clock = systemClock): Watch {
  const shareOf = tallies();
  const heat = heatMap(clock, onWarning);

  const meter: Layer = async (call, send) => {
    if (call.port !== "tables") return send();
    const table = String(call.args[0]);
    const tellOutcome = (lost: number) => {
      if (!mutationsOf(call).some(isConditional)) return;
      const rate = shareOf(`contention ${table}`, 1, lost, 1);
      if (rate !== undefined && rate > CONTENTION_MAX) {
        onWarning({ kind: "contention", table, rate });
      }
    };
    try {
      const answer = await send();
      tellOutcome(0);
      for (const { partitionKey } of touchedBy(call, answer)) heat(table, partitionKey);
      return answer;
    } catch (error) {
      tellOutcome(isRefusal(error, 412) ? 1 : 0);
      throw error;
    }
  };

  const onPage = ({ plan, table, filter, isFirst, page, returned, checked }: PageRead) => {
    const received = page.entities.length;
    if (checked !== undefined) {
      const rate = shareOf(`stale ${checked}`, received, received - returned, received);
      if (rate !== undefined && rate > STALE_MAX) {
        onWarning({ kind: "stale entries", index: checked, rate });
      }
    }
    if (plan === "point") return;
    const shape = filter ? printFilter(withoutValues(filter)) : "";
    const read = page.inspected ?? received;
    const density = shareOf(`density ${table} ${shape}`, isFirst ? 1 : 0, returned, read);
    if (density !== undefined && density < DENSITY_MIN) {
      onWarning({ kind: "low density", table, filter: shape, density });
    }
  };

  return { meter, onPage };
}

/** Adds to a tally; its share once more than a sample of `count` came together, and there is a whole. */
function tallies() {
  const all = new Map<string, { count: number; part: number; whole: number }>();
  return (id: string, count: number, part: number, whole: number): number | undefined => {
    const tally = all.get(id) ?? { count: 0, part: 0, whole: 0 };
    tally.count += count;
    tally.part += part;
    tally.whole += whole;
    if (tally.count <= SAMPLE) {
      if (all.size >= TALLIES_MAX) all.clear();
      all.set(id, tally);
      return undefined;
    }
    all.delete(id);
    return tally.whole > 0 ? tally.part / tally.whole : undefined;
  };
}

/** Counts what each partition did in a window, and tells of the hot ones when it is over. */
function heatMap(clock: Clock, onWarning: (warning: Warning) => void) {
  const tables = new Map<string, Map<string, number>>();
  let startMs = clock.now();
  const tellHot = (seconds: number) => {
    for (const [table, partitions] of tables) {
      for (const [partitionKey, entities] of partitions) {
        const entitiesPerSecond = entities / seconds;
        if (entitiesPerSecond <= ENTITIES_PER_SECOND_MAX) continue;
        onWarning({ kind: "hot partition", table, partitionKey, entitiesPerSecond });
      }
    }
  };
  return (table: string, partitionKey: string): void => {
    const seconds = (clock.now() - startMs) / 1000;
    if (seconds >= WINDOW_S) {
      tellHot(seconds);
      tables.clear();
      startMs = clock.now();
    }
    const partitions = tables.get(table) ?? new Map<string, number>();
    tables.set(table, partitions);
    partitions.set(partitionKey, (partitions.get(partitionKey) ?? 0) + 1);
  };
}

/** The rows that a request read or wrote, as far as it and its answer tell. */
function touchedBy(call: PortCall, answer: unknown): readonly EntityKey[] {
  // The arguments and answers are those of `TablesPort`.
  switch (call.method) {
    case "commit":
      return mutationsOf(call) as readonly EntityKey[];
    case "query":
      return (answer as Page).entities;
    case "get":
      return [call.args[1] as EntityKey];
    default:
      return [];
  }
}

function isConditional(mutation: unknown): boolean {
  return typeof mutation === "object" && mutation !== null && "ifMatch" in mutation
    ? mutation.ifMatch !== "*"
    : false;
}

/** Queries that differ in their values only are one. */
function withoutValues(filter: Filter): Filter {
  switch (filter.kind) {
    case "compare":
      return { ...filter, value: text("…") };
    case "not":
      return { ...filter, operand: withoutValues(filter.operand) };
    default:
      return { ...filter, left: withoutValues(filter.left), right: withoutValues(filter.right) };
  }
}
