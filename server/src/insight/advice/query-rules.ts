import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import { LIMITS } from "@rowhouse/protocol/limits";
import { planQuery } from "../../query/planner.ts";
import { remedyOfQuery, separateReads } from "../query-remedy.ts";
import type { QueryEvent } from "../recording.ts";
import type { Remedy } from "../remedy.ts";
import { type QueryShapes, SERIES_MIN } from "./query-shapes.ts";
import {
  counted,
  type Finding,
  getOrMake,
  groupBy,
  nameOf,
  type Observed,
  type Rule,
  tableOf,
} from "./rule.ts";

/** A query that runs less often is a one-time report. */
const TIMES_MIN = 3;
const READ_MIN = 100;
const DENSITY_MIN = 0.1;

export function findScans(shapes: QueryShapes): Finding[] {
  return shapes.find(({ table, shape, first, all }): Finding | [] => {
    const { read, returned, queries: times } = all;
    if (times < TIMES_MIN || read < READ_MIN || returned >= DENSITY_MIN * read) return [];
    const { filter = "", class: planClass } = first;
    const plan = planQuery(filter.trim() === "" ? undefined : parseFilter(filter));
    const remedy = remedyOfQuery(nameOf(table), plan);
    if (!remedy) return [];
    return {
      ...{ rule: "scan", table, subject: shape, remedy },
      title: `${planClass}${shape ? ` for ${shape}` : ""} reads ${read} entities to return ${returned}`,
      evidence: [
        `${times} times ${shape || "(no filter)"}`,
        `for example ${filter || "(no filter)"}`,
      ],
      cost: `${Math.round(read / times)} entities read per query, and more as the table grows; a query by keys reads only what it returns.`,
    };
  });
}

export function findBulkReads(shapes: QueryShapes): Finding[] {
  return shapes.find(({ table, shape, tableScans }): Finding | [] => {
    const { pages, queries: times, read, returned } = tableScans;
    if (times < TIMES_MIN || returned < DENSITY_MIN * read || read < 1000 * times) return [];
    return {
      ...{ rule: "bulk-reads", table, subject: shape },
      title: `The whole table was read ${times} times${shape ? ` (${shape})` : ""}`,
      evidence: [`${read} entities in ${pages} pages`],
      cost: `${counted(Math.ceil(read / times / 1000), "request")} each time; reading a blob takes one.`,
      remedy: {
        pattern: "log data in blobs",
        advice: "Store data that is only read in bulk in append blobs, one per period.",
        layout: [`container ${nameOf(table).toLowerCase()}: <day>/<writer>.log`],
      },
    };
  });
}

export function findOrOverKeys(shapes: QueryShapes): Finding[] {
  return shapes.find(({ table, shape, first: { filter }, all }): Finding | [] => {
    const { queries: times } = all;
    if (!filter?.trim() || times < TIMES_MIN) return [];
    const plan = planQuery(parseFilter(filter));
    const reads = separateReads(plan);
    if (reads < 2 || plan.class === "partition range" || plan.class === "table scan") return [];
    return {
      ...{ rule: "or-over-keys", table, subject: shape },
      title: `${shape} is ${reads} cheap reads here but a scan in the cloud`,
      evidence: [`${times} times`, `for example ${filter}`],
      cost: "The cloud reads the whole partition or the whole table each time.",
      remedy: remedyOfQuery(nameOf(table), { ...plan, residual: undefined })!,
    };
  });
}

export function findWideAnswers(shapes: QueryShapes): Finding[] {
  return shapes.find(({ table, shape, unprojected }): Finding | [] => {
    const { bytes, pages, read, returned } = unprojected;
    const bytesEach = bytes / Math.max(read, 1);
    if (returned < READ_MIN || bytesEach < 8192) return [];
    return {
      ...{ rule: "wide-answers", table, subject: shape },
      title: `Queries${shape ? ` for ${shape}` : ""} return whole entities of ${Math.round(bytesEach / 1024)} KiB`,
      evidence: [`${counted(pages, "page")} without $select, ${returned} entities`],
      cost: `About ${Math.round((bytesEach * returned) / 1_048_576)} MiB sent.`,
      remedy: {
        pattern: "projection",
        advice: "List the properties that you use in $select.",
        layout: ["query: $select=<the properties used>"],
      },
    };
  });
}

const LIST_MIN = 3;
const FOLLOW_MS = 2000;

/** Lists of a table that were followed by point queries of another. */
interface Followed {
  lists: number;
  points: number;
  /** The first such list, and the first of the point queries after it. */
  readonly list: QueryEvent;
  readonly point: QueryEvent;
}

/** A client's last list, and by table the point queries that followed it. */
interface Chase {
  readonly list: QueryEvent;
  readonly lookups: Map<string, { readonly first: QueryEvent; count: number }>;
}

/**
 * Finds lists that the same client soon follows with a point query for nearly each entity of the list.
 * Independent lists and point queries can look the same now and then. So a finding needs at least half of the
 * lists of one shape to be followed by nearly as many point queries as they have entities, and by no more than
 * twice as many. Other lists of the table, however many, say nothing about these.
 */
export class LookupsAfterLists implements Rule {
  /** By client. */
  readonly #chases = new Map<string, Chase>();
  /** By table and shape. */
  readonly #lists = new Map<string, number>();
  readonly #shapes: QueryShapes;
  /** By the table and shape of the lists, and the table of the point queries. */
  readonly #found = new Map<string, Followed>();

  constructor(shapes: QueryShapes) {
    this.#shapes = shapes;
  }

  #shapeOf(list: QueryEvent): string {
    return `${tableOf(list)} ${this.#shapes.shapeOf(list.filter)}`;
  }

  queried(query: QueryEvent): void {
    const { client } = query;
    const chase = this.#chases.get(client);
    if (query.class !== "point query") {
      if (chase) this.#end(chase);
      if (query.returned < LIST_MIN) this.#chases.delete(client);
      else this.#chases.set(client, { list: query, lookups: new Map() });
    } else if (chase && query.at - chase.list.at <= FOLLOW_MS) {
      const none = () => ({ first: query, count: 0 });
      getOrMake(chase.lookups, tableOf(query), none).count++;
    }
  }

  #end({ list, lookups }: Chase): void {
    const shape = this.#shapeOf(list);
    this.#lists.set(shape, (this.#lists.get(shape) ?? 0) + 1);
    for (const [lookedUp, { count, first }] of lookups) {
      if (count < Math.max(LIST_MIN, 0.8 * list.returned) || count > 2 * list.returned) continue;
      const none = () => ({ lists: 0, points: 0, list, point: first });
      const followed = getOrMake(this.#found, `${shape} ${lookedUp}`, none);
      followed.lists++;
      followed.points += count;
    }
  }

  findings(): Finding[] {
    for (const chase of this.#chases.values()) this.#end(chase);
    return [...this.#found.values()].flatMap((followed) => this.#judge(followed));
  }

  #judge({ list, lists, point, points }: Followed): Finding | [] {
    const of = this.#lists.get(this.#shapeOf(list)) ?? 0;
    if (lists < Math.max(TIMES_MIN, of / 2)) return [];
    return {
      rule: "n-plus-one",
      table: tableOf(list),
      subject: `${this.#shapes.shapeOf(list.filter)} ${tableOf(point)}`.trim(),
      title: `Lists of ${list.table} are followed by a point query of ${point.table} for each entity`,
      evidence: [
        `${lists} of ${of} lists of this shape, ${points} point queries`,
        `for example ${list.filter ?? "(no filter)"}, then ${point.table} ${point.partitionKey}/${point.rowKey}`,
      ],
      cost: `${Math.round(points / lists)} more requests per list, each with its own round trip.`,
      remedy: isListed(list, point) ? completeList(list) : copyInto(list, point.table),
    };
  }
}

function copyInto({ table }: QueryEvent, lookedUp: string): Remedy {
  const isIndex = lookedUp === table;
  return {
    pattern: "denormalization",
    advice: isIndex
      ? "Copy the properties that the list shows into the index entities, and write both when they change."
      : `Copy the properties of ${lookedUp} that the list shows into the entities of ${table}, and write both when they change.`,
    layout: [
      isIndex
        ? `${table}: keys unchanged, plus the properties shown`
        : `${table}: keys unchanged, plus the properties of ${lookedUp} shown, as ${lookedUp}_<property>`,
    ],
  };
}

/** The point queries fetched entities that the list already returned. */
function completeList({ projected }: QueryEvent): Remedy {
  return {
    pattern: "projection",
    advice: projected
      ? "Add every property you show to the $select of the list: it reads these entities anyway."
      : "Use the result of the list: it already contains the whole entities.",
    layout: projected ? ["query: $select=<the properties shown>"] : [],
  };
}

/** Whether the list includes the entity itself. If not, it only leads to the entity, as an index does. */
function isListed(list: QueryEvent, point: QueryEvent): boolean {
  const { partitionKey = "", rowKey = "" } = point;
  if (tableOf(list) !== tableOf(point)) return false;
  const filter = list.filter?.trim() ? parseFilter(list.filter) : undefined;
  const key = (name: string, value: string): FilterNode => ({
    ...{ kind: "comparison", property: name, operator: "eq" },
    literal: { type: "Edm.String", value },
  });
  const both = [key("PartitionKey", partitionKey), key("RowKey", rowKey)];
  const clauses = filter ? [filter, ...both] : both;
  return planQuery({ kind: "and", clauses }).class !== "nothing";
}

/** The part of a row key that names a period, if such keys number the values within it. */
function periodOf(rowKey: string): string {
  const period = /^(.*[^\W_])[\W_]+\d+$/.exec(rowKey)?.[1];
  return period === undefined
    ? '"values" (the partition is the period)'
    : `<the period, such as ${period}>`;
}

/**
 * Finds many small numeric entities of one partition whose keys only count up, and which are always read
 * together.
 */
export function findSeries(shapes: QueryShapes, { data }: Observed): Finding[] {
  return shapes.find(({ table, shape, series }): Finding | [] => {
    const { queries: times } = series;
    const samples = data.get(table)?.samples ?? [];
    if (times < TIMES_MIN || samples.length < SERIES_MIN) return [];
    const small = samples.filter(({ numeric, properties }) => numeric && properties <= 2);
    const patterns = groupBy(small, ({ rowKey }) => rowKey.replace(/\d/g, "#"));
    const [pattern = "", alike = []] =
      [...patterns].sort((a, b) => b[1].length - a[1].length)[0] ?? [];
    if (!pattern.includes("#") || alike.length < 0.8 * samples.length) return [];
    const points = Math.round(series.returned / times);
    const entities = Math.ceil(points / LIMITS.customPropertiesMax);
    const values = Math.ceil(points / entities);
    const part = entities > 1 ? `_<number of the part, ${values} values each>` : "";
    const example = alike[0]!;
    return {
      ...{ rule: "series-as-entities", table, subject: shape },
      title: `A series of ${points} values is read as ${points} entities`,
      evidence: [
        `${times} times ${shape || "(no filter)"}`,
        `entities like ${example.partitionKey}/${example.rowKey}, with ${counted(example.properties, "number")} each`,
      ],
      cost: `${points} entities read and counted where ${entities} would do, and ${points} writes.`,
      remedy: {
        pattern: "data series in one entity",
        advice:
          "Store the values of one period as properties of one entity, and merge each new value into it.",
        layout: [
          `${nameOf(table)}: PartitionKey unchanged, RowKey = ${periodOf(example.rowKey)}${part}`,
          `properties: V00, V01 … V${String(values - 1).padStart(2, "0")}; a new value is a merge of one property`,
        ],
      },
    };
  });
}
