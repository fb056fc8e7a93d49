import { text } from "./ports/edm.ts";
import { type Filter, printFilter } from "./ports/filter.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { EntityKey, Page } from "./ports/tables.ts";
import { type Clock, systemClock } from "./store/clock.ts";
import { type Layer, mutationsOf, type PortCall } from "./store/layer.ts";
import type { PageRead } from "./store/page-read.ts";

/** A sign, at run time, that a design does not fit its use. */
export type Warning =
  /** A query discards most of the entities read for it: it needs an index or another key. */
  | {
      readonly kind: "low density";
      readonly table: string;
      /** The shape of the filter, without its values. */
      readonly filter: string;
      /** The share of the entities read that was returned. */
      readonly density: number;
    }
  /** Many writers change the same rows. */
  | {
      readonly kind: "contention";
      readonly table: string;
      /** The share of conditional writes that lost a race. */
      readonly rate: number;
    }
  /** Other software writes entities without updating this index, or the index is not repaired. */
  | {
      readonly kind: "stale entries";
      /** `Employee.email` */
      readonly index: string;
      /** Of the entries that reads verified, the share whose entity does not have the value. */
      readonly rate: number;
    }
  /** A partition serves more than half of its throughput target. */
  | {
      readonly kind: "hot partition";
      readonly table: string;
      readonly partitionKey: string;
      readonly entitiesPerSecond: number;
    };

/** Pass it to `connect`: `connect({ ...endpoints, ...warnings(log) })`. */
export interface Watch {
  readonly meter: Layer;
  readonly onPage: (page: PageRead) => void;
}

const DENSITY_MIN = 0.1;
const CONTENTION_MAX = 0.05;
const STALE_MAX = 0.01;
/** A share is reported over more than this many counts; counting then starts over. */
const SAMPLE = 100;
/** Query shapes counted at once. A program has few; beyond this limit counting starts over. */
const TALLIES_MAX = 1000;
const ENTITIES_PER_SECOND_MAX = 1000;
const WINDOW_S = 10;

/** Calls `onWarning` when a measurement exceeds its limit, again for every sample that does. */
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

/** Adds to a tally. Returns its share once there are more than `SAMPLE` counts and the whole is not 0. */
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

/** Counts the entities each partition serves in a time window, and reports the hot partitions at its end. */
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

/** The rows a request read or wrote, as far as the request and its answer show. */
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

/** Queries that differ only in their values count as one. */
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
