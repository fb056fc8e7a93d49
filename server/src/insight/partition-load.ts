import type { Clock } from "../clock.ts";
import {
  drawHeatMap,
  HeatMap,
  type HeatMapData,
  type HeatMapPart,
  type NamedLoad,
} from "./heat-map.ts";
import { InsertOrder, type OrderVerdict } from "./insert-order.ts";
import {
  countedEntities,
  type Insight,
  type MutationFacts,
  partitionName,
  partitionNameOf,
  type QueryCost,
  type QueryFacts,
  type WriteFacts,
} from "./insight.ts";
import { PartitionSketch } from "./partition-sketch.ts";
import { ScanCounts, type ScanSlot } from "./scan-counts.ts";

export interface HotPartition {
  /** `account/table/partition key`. */
  readonly partition: string;
  /** Entities a second, as the cloud's targets count them: scanned, at least one per query, and written. */
  readonly load: number;
  /** The most of the load that may belong to other partitions. */
  readonly excess: number;
  readonly share: number;
  readonly read: number;
  readonly written: number;
  readonly scanned: number;
}

export interface LoadReport {
  readonly halfLifeSeconds: number;
  /** Entities a second in all single partitions, and in reads across several. */
  readonly load: number;
  readonly loadAcrossPartitions: number;
  readonly followed: number;
  readonly hottest: readonly HotPartition[];
  /** Share of the load carried by the heaviest partition, and by the ten heaviest. */
  readonly skew: { readonly first: number; readonly firstTen: number };
  readonly inserts: readonly TableInserts[];
}

export interface TableInserts {
  /** `account/table`. */
  readonly table: string;
  readonly order: OrderVerdict;
  readonly examples: readonly string[];
}

/**
 * Tables whose insert order is followed. Another table is followed once one of these had no insert for so
 * long.
 */
const TABLES_MAX = 256;
const TABLE_IDLE_MS = 600_000;
/** How often idle tables are looked for. */
const IDLE_LOOK_MS = 1000;

/**
 * Which partitions carry the load now: rates fade with a half-life of a minute. A query of several partitions
 * counts for the account but for none of them, because the plan does not say how they share it. Writes are
 * counted when they are admitted, whatever their outcome.
 */
export class PartitionLoad implements Partial<Insight> {
  readonly #clock: Clock;
  readonly #sketch: PartitionSketch;
  readonly #heat: Readonly<Record<keyof Omit<HeatHistory, "scans">, HeatMap>>;
  readonly #scans = new ScanCounts();
  /** By `account/table`. */
  readonly #orders = new Map<string, InsertOrder>();
  #idleLookAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, random?: () => number) {
    this.#clock = clock;
    this.#sketch = new PartitionSketch(clock.now());
    const options = random ? { random } : {};
    this.#heat = {
      read: new HeatMap(options),
      written: new HeatMap(options),
      scanned: new HeatMap(options),
    };
  }

  queried(query: QueryFacts, { entitiesRead, entitiesReturned }: QueryCost): void {
    const name = partitionNameOf(query);
    const entities = countedEntities(entitiesRead);
    if (name === undefined) {
      this.#sketch.addAcross(entities, query.at);
      const table = `${query.account}/${query.table}`;
      this.#heat.scanned.add(table, entities, query.at);
      const isScan = query.class === "table scan" || query.class === "partition range";
      if (isScan && !query.continued) this.#scans.add(table, query.at);
      return;
    }
    const followed = this.#sketch.add(name, entities, query.at);
    if (followed) {
      const { weight } = this.#sketch.scale;
      followed.read += entitiesReturned * weight;
      followed.scanned += entitiesRead * weight;
    }
    this.#heat.read.add(name, entities, query.at);
  }

  admitWrite(write: WriteFacts): void {
    const { at: now, account, table, partitionKey, mutations } = write;
    const name = partitionName(account, table, partitionKey);
    const followed = this.#sketch.add(name, mutations.length, now);
    if (followed) followed.written += mutations.length * this.#sketch.scale.weight;
    this.#heat.written.add(name, mutations.length, now);
    const inserts = mutations.filter(isInsert);
    const order = inserts.length > 0 ? this.#orderOf(`${account}/${table}`, now) : undefined;
    for (const _ of inserts) order?.add(partitionKey, now);
  }

  report(count?: number): LoadReport {
    return reportLoad([this.part()], count);
  }

  heatMap(rowsMax?: number): HeatMapData {
    return drawHeatMap([this.heatPart()], rowsMax);
  }

  /** What `reportLoad` reports. */
  part(): LoadPart {
    const now = this.#clock.now();
    const { across, total } = this.#sketch;
    const perSecond = (amount: number) => this.#sketch.perSecond(amount, now);
    const followed = this.#sketch.heaviest(Number.POSITIVE_INFINITY);
    return {
      halfLifeSeconds: this.#sketch.scale.halfLifeMs / 1000,
      load: perSecond(total),
      loadAcrossPartitions: perSecond(across),
      unfollowedMax: this.#sketch.isFull ? perSecond(followed.at(-1)?.load ?? 0) : 0,
      followed: followed.map((each) => ({
        partition: each.name,
        load: perSecond(each.load),
        excess: perSecond(each.excess),
        read: perSecond(each.read),
        written: perSecond(each.written),
        scanned: perSecond(each.scanned),
      })),
      inserts: [...this.#orders].map(([table, { examples, verdict }]) => ({
        ...{ table, order: verdict, examples },
      })),
    };
  }

  /** What `drawHeatMap` draws. */
  heatPart(): HeatMapPart {
    const { read, written } = this.#heat;
    const now = this.#clock.now();
    const part = read.part(now);
    return { ...part, slots: [...part.slots, ...written.part(now).slots] };
  }

  /** The load of an account's partitions over the last days. */
  heatHistory(account: string): HeatHistory {
    const { read, written, scanned } = this.#heat;
    const prefix = `${account}/`;
    return {
      read: read.history(prefix),
      written: written.history(prefix),
      scanned: scanned.history(prefix),
      scans: this.#scans.history(prefix),
    };
  }

  #orderOf(table: string, now: number): InsertOrder | undefined {
    const known = this.#orders.get(table);
    if (known) return known;
    if (this.#orders.size === TABLES_MAX) this.#forgetIdle(now);
    if (this.#orders.size === TABLES_MAX) return undefined;
    const order = new InsertOrder();
    this.#orders.set(table, order);
    return order;
  }

  /** Tables come and go, for example where each day has its own. */
  #forgetIdle(now: number): void {
    if (now < this.#idleLookAt + IDLE_LOOK_MS) return;
    this.#idleLookAt = now;
    for (const [table, { lastAt }] of this.#orders) {
      if (lastAt <= now - TABLE_IDLE_MS) this.#orders.delete(table);
    }
  }
}

/** Entities that the cloud's targets count, by `table/partition key`; `scanned` across partitions, by table. */
export interface HeatHistory {
  readonly read: readonly NamedLoad[];
  readonly written: readonly NamedLoad[];
  readonly scanned: readonly NamedLoad[];
  /** How many queries read ranges of several partitions, or the whole table. */
  readonly scans: readonly ScanSlot[];
}

/** What one process counted, in entities a second. */
export interface LoadPart {
  readonly halfLifeSeconds: number;
  readonly load: number;
  readonly loadAcrossPartitions: number;
  /** No partition that is not followed here has more load here. */
  readonly unfollowedMax: number;
  readonly followed: readonly FollowedLoad[];
  readonly inserts: readonly TableInserts[];
}

type FollowedLoad = Omit<HotPartition, "share">;

/**
 * The load that one or more processes over the same data counted. The sketch's guarantees hold for the sums: where a
 * process does not follow a partition, the most that it may have counted is added to load and excess.
 */
export function reportLoad(parts: readonly LoadPart[], count = 20): LoadReport {
  const total = sum(parts.map(({ load }) => load));
  const share = (load: number) => (total > 0 ? Math.round((load / total) * 1000) / 1000 : 0);
  const followed = joinFollowed(parts).sort((a, b) => b.load - a.load);
  const skewOf = (heaviest: number) =>
    share(sum(followed.slice(0, heaviest).map(({ load }) => load)));
  return {
    halfLifeSeconds: parts[0]?.halfLifeSeconds ?? 0,
    load: rounded(total),
    loadAcrossPartitions: rounded(sum(parts.map((part) => part.loadAcrossPartitions))),
    followed: followed.length,
    hottest: followed.slice(0, count).map((each) => ({
      partition: each.partition,
      load: rounded(each.load),
      excess: rounded(each.excess),
      share: share(each.load),
      read: rounded(each.read),
      written: rounded(each.written),
      scanned: rounded(each.scanned),
    })),
    skew: { first: skewOf(1), firstTen: skewOf(10) },
    inserts: joinInserts(parts.flatMap(({ inserts }) => inserts)),
  };
}

function joinFollowed(parts: readonly LoadPart[]): FollowedLoad[] {
  const unfollowed = sum(parts.map(({ unfollowedMax }) => unfollowedMax));
  const joined = new Map<string, FollowedLoad>();
  for (const { followed, unfollowedMax } of parts) {
    for (const each of followed) {
      const known = joined.get(each.partition);
      const [load, excess] = known ? [known.load, known.excess] : [unfollowed, unfollowed];
      joined.set(each.partition, {
        partition: each.partition,
        load: load - unfollowedMax + each.load,
        excess: excess - unfollowedMax + each.excess,
        read: (known?.read ?? 0) + each.read,
        written: (known?.written ?? 0) + each.written,
        scanned: (known?.scanned ?? 0) + each.scanned,
      });
    }
  }
  return [...joined.values()];
}

/** Each process sees some of a table's inserts, in their order: a third of ascending keys ascends as well. */
function joinInserts(inserts: readonly TableInserts[]): TableInserts[] {
  const joined = new Map<string, TableInserts>();
  for (const each of inserts) {
    const known = joined.get(each.table);
    const order = known ? joinOrders(known.order, each.order) : each.order;
    const examples = [...new Set([...(known?.examples ?? []), ...each.examples])];
    joined.set(each.table, { table: each.table, order, examples });
  }
  return [...joined.values()];
}

function joinOrders(a: OrderVerdict, b: OrderVerdict): OrderVerdict {
  if (a === b || b === "too few") return a;
  if (a === "too few") return b;
  return "spread";
}

/** An upsert may be an insert. */
function isInsert({ kind, ifMatch }: MutationFacts): boolean {
  return kind === "insert" || (kind !== "delete" && ifMatch === undefined);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function rounded(rate: number): number {
  return Math.round(rate * 100) / 100;
}
