import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { LIMITS } from "@rowhouse/protocol/limits";
import { planQuery } from "../query/planner.ts";
import {
  counted,
  type Finding,
  groupBy,
  nameOf,
  type Observed,
  queriesOf,
  sumOf,
  tableOf,
} from "./advice.ts";
import { cureOfQuery, shapeOf } from "./cure.ts";
import type { QueryEvent } from "./recording.ts";

/** Less often is a report somebody asked for once. */
const TIMES_MIN = 3;
const READ_MIN = 100;
const DENSITY_MIN = 0.1;

/** Queries that have table and filter in common, constants left out. */
interface Shape {
  readonly table: string;
  readonly shape: string;
  /** Pages of them. */
  readonly queries: readonly QueryEvent[];
  /** How many queries there were, however long. */
  readonly times: number;
}

function shapes(observed: Observed): Shape[] {
  // Several points of one filter are a list as well.
  const listing = queriesOf(observed).filter(({ rowKey }) => rowKey === undefined);
  const known = new Map<string, string>();
  const shapeOfQuery = ({ filter = "" }: QueryEvent): string => {
    let shape = known.get(filter);
    if (shape === undefined) {
      shape = filter.trim() === "" ? "" : shapeOf(parseFilter(filter));
      known.set(filter, shape);
    }
    return shape;
  };
  const groups = groupBy(listing, (query) => `${tableOf(query)} ${shapeOfQuery(query)}`);
  return [...groups.values()].map((queries) => ({
    table: tableOf(queries[0]!),
    shape: shapeOfQuery(queries[0]!),
    queries,
    times: queries.filter(({ continued }) => !continued).length,
  }));
}

export function findScans(observed: Observed): Finding[] {
  const findings: Finding[] = [];
  for (const { table, shape, queries, times } of shapes(observed)) {
    const read = sumOf(queries, (query) => query.read);
    const returned = sumOf(queries, (query) => query.returned);
    if (times < TIMES_MIN || read < READ_MIN || returned >= DENSITY_MIN * read) continue;
    const { filter = "", class: planClass } = queries[0]!;
    const plan = planQuery(filter.trim() === "" ? undefined : parseFilter(filter));
    const cure = cureOfQuery(nameOf(table), plan);
    if (!cure) continue;
    findings.push({
      ...{ rule: "scan", table, subject: shape, cure },
      title: `${planClass}${shape ? ` for ${shape}` : ""} reads ${read} entities to return ${returned}`,
      evidence: [
        `${times} times ${shape || "(no filter)"}`,
        `for example ${filter || "no filter"}`,
      ],
      cost: `${Math.round(read / times)} entities a query, more with every entity stored; an answer by keys reads what it returns.`,
    });
  }
  return findings;
}

export function findBulkReads(observed: Observed): Finding[] {
  return shapes(observed).flatMap(({ table, shape, queries }): Finding[] => {
    const whole = queries.filter(
      ({ class: name, continued }) => name === "table scan" && !continued,
    );
    const read = sumOf(queries, (query) => query.read);
    const returned = sumOf(queries, (query) => query.returned);
    if (whole.length < TIMES_MIN || returned < DENSITY_MIN * read || read < 1000 * whole.length) {
      return [];
    }
    return [
      {
        ...{ rule: "bulk-reads", table, subject: shape },
        title: `The whole table is read${shape ? ` (${shape})` : ""}, ${whole.length} times`,
        evidence: [`${read} entities in ${queries.length} pages`],
        cost: `${Math.ceil(read / whole.length / 1000)} requests each time; a blob is one.`,
        cure: {
          pattern: "log data in blobs",
          advice: "Keep what is only read in bulk in append blobs, one for each period.",
          layout: [`container ${nameOf(table).toLowerCase()}: <day>/<writer>.log`],
          portable: true,
        },
      },
    ];
  });
}

export function findOrOverKeys(observed: Observed): Finding[] {
  return shapes(observed).flatMap(({ table, shape, queries, times }): Finding[] => {
    const { filter } = queries[0]!;
    if (!filter?.trim() || times < TIMES_MIN) return [];
    const plan = planQuery(parseFilter(filter));
    const isCheap = plan.class === "point query" || plan.class === "range query";
    if (plan.reads.length < 2 || !isCheap) return [];
    return [
      {
        ...{ rule: "or-over-keys", table, subject: shape },
        title: `${shape} is ${plan.reads.length} cheap reads here and a scan in the cloud`,
        evidence: [`${times} times`, `for example ${filter}`],
        cost: "In the cloud: the whole partition, or the whole table, each time.",
        cure: cureOfQuery(nameOf(table), { ...plan, residual: undefined })!,
      },
    ];
  });
}

export function findWideAnswers(observed: Observed): Finding[] {
  return shapes(observed).flatMap(({ table, shape, queries }): Finding[] => {
    const whole = queries.filter(({ projected }) => !projected);
    const returned = sumOf(whole, (query) => query.returned);
    const bytes = sumOf(whole, (query) => query.bytes);
    const bytesEach =
      bytes /
      Math.max(
        sumOf(whole, (query) => query.read),
        1,
      );
    if (returned < READ_MIN || bytesEach < 8192) return [];
    return [
      {
        ...{ rule: "wide-answers", table, subject: shape },
        title: `${shape || "Queries"} return entities of ${Math.round(bytesEach / 1024)} KiB whole`,
        evidence: [`${counted(whole.length, "page")} without $select, ${returned} entities`],
        cost: `${Math.round(bytes / 1_048_576)} MiB read and sent.`,
        cure: {
          pattern: "projection",
          advice: "Name the properties that are used in $select.",
          layout: ["query: $select=<the properties used>"],
          portable: true,
        },
      },
    ];
  });
}

const LIST_MIN = 3;
const FOLLOW_MS = 2000;

/**
 * A list, and soon after it from the same client a point query for nearly each of its entities. Where lists
 * and point queries only come side by side, now and then as many follow: less than half of the lists have
 * nearly as many behind them as they hold, and not twice as many.
 */
export function findLookupsAfterLists(observed: Observed): Finding[] {
  interface Chase {
    readonly list: QueryEvent;
    readonly lookups: Map<string, QueryEvent[]>;
  }
  const chases: { list: QueryEvent; lookups: QueryEvent[] }[] = [];
  const lists = new Map<string, number>();
  const end = (chase: Chase | undefined) => {
    if (!chase) return;
    const { list } = chase;
    const table = tableOf(list);
    lists.set(table, (lists.get(table) ?? 0) + 1);
    for (const lookups of chase.lookups.values()) {
      const enough = Math.max(LIST_MIN, 0.8 * list.returned);
      if (lookups.length >= enough && lookups.length <= 2 * list.returned) {
        chases.push({ list, lookups });
      }
    }
  };
  for (const events of groupBy(queriesOf(observed), ({ client }) => client).values()) {
    let chase: Chase | undefined;
    for (const event of events) {
      if (event.class !== "point query") {
        end(chase);
        chase = event.returned >= LIST_MIN ? { list: event, lookups: new Map() } : undefined;
      } else if (chase && event.at - chase.list.at <= FOLLOW_MS) {
        const lookups = chase.lookups.get(tableOf(event));
        if (lookups) lookups.push(event);
        else chase.lookups.set(tableOf(event), [event]);
      }
    }
    end(chase);
  }
  const pairs = groupBy(chases, ({ list, lookups }) => `${tableOf(list)} ${tableOf(lookups[0]!)}`);
  return [...pairs.values()].flatMap((pair): Finding[] => {
    const { list, lookups } = pair[0]!;
    const of = lists.get(tableOf(list)) ?? 0;
    if (pair.length < Math.max(TIMES_MIN, of / 2)) return [];
    const points = sumOf(pair, (each) => each.lookups.length);
    const example = lookups[0]!;
    return [
      {
        ...{ rule: "n-plus-one", table: tableOf(list), subject: tableOf(example) },
        title: `Lists of ${list.table} are followed by a point query of ${example.table} for each entity`,
        evidence: [
          `${pair.length} of ${of} lists, ${points} point queries`,
          `for example ${list.filter ?? "(no filter)"}, then ${example.table} ${example.partitionKey}/${example.rowKey}`,
        ],
        cost: `${Math.round(points / pair.length)} more requests for each list, one round trip after another.`,
        cure: {
          pattern: "denormalization",
          advice: `Copy what the list shows of ${example.table} into the entities of ${list.table}, and write both when it changes.`,
          layout: [
            `${list.table}: keys as they are, and the properties of ${example.table} that are shown, as ${example.table}_<property>`,
          ],
          portable: true,
        },
      },
    ];
  });
}

const SERIES_MIN = 12;

/** What names a period where each of its values had a row key such as this. */
function periodOf(rowKey: string): string {
  const period = /^(.*[^\W_])[\W_]+\d+$/.exec(rowKey)?.[1];
  return period === undefined ? '"values": the partition is the period' : `<the period: ${period}>`;
}

/** Many small numeric entities of one partition whose keys only count on, always read together. */
export function findSeries(observed: Observed): Finding[] {
  return shapes(observed).flatMap(({ table, shape, queries }): Finding[] => {
    const charts = queries.filter(
      ({ read, returned, partitionKey }) =>
        partitionKey !== undefined && returned >= SERIES_MIN && returned >= 0.9 * read,
    );
    const times = charts.filter(({ continued }) => !continued).length;
    const samples = observed.data.get(table)?.samples ?? [];
    if (times < TIMES_MIN || samples.length < SERIES_MIN) return [];
    const small = samples.filter(({ numeric, properties }) => numeric && properties <= 2);
    const patterns = groupBy(small, ({ rowKey }) => rowKey.replace(/\d/g, "#"));
    const [pattern = "", alike = []] =
      [...patterns].sort((a, b) => b[1].length - a[1].length)[0] ?? [];
    if (!pattern.includes("#") || alike.length < 0.8 * samples.length) return [];
    const points = Math.round(sumOf(charts, ({ returned }) => returned) / times);
    const entities = Math.ceil(points / LIMITS.customPropertiesMax);
    const values = Math.ceil(points / entities);
    const part = entities > 1 ? `_<its part, of ${values} values>` : "";
    const example = alike[0]!;
    return [
      {
        ...{ rule: "series-as-entities", table, subject: shape },
        title: `A series of ${points} values is read as ${points} entities`,
        evidence: [
          `${times} times ${shape || "(no filter)"}`,
          `entities like ${example.partitionKey}/${example.rowKey}, of ${counted(example.properties, "number")} each`,
        ],
        cost: `${points} entities read and counted where ${entities} would do, and ${points} writes.`,
        cure: {
          pattern: "data series in one entity",
          advice:
            "Keep the values of one period as properties of one entity, and merge each new one into it.",
          layout: [
            `${nameOf(table)}: PartitionKey as it is, RowKey = ${periodOf(example.rowKey)}${part}`,
            `properties: V00, V01 … V${String(values - 1).padStart(2, "0")}; a new value is a merge of one property`,
          ],
          portable: true,
        },
      },
    ];
  });
}
