import type { TrafficEvent } from "../recording.ts";
import type { Remedy } from "../remedy.ts";
import type { RecordingEnd, TrafficListener } from "./read-recording.ts";
import type { TableNames } from "./table-names.ts";

/** A design mistake visible in the traffic or the data. */
export interface Finding {
  readonly rule: RuleName;
  /** `account/table`, or only the account. */
  readonly table: string;
  /**
   * Distinguishes the table's findings of this rule, and is the same in every recording: a shape, a place, or
   * "".
   */
  readonly subject: string;
  readonly title: string;
  /** The evidence: query shapes, counts, example keys. */
  readonly evidence: readonly string[];
  readonly cost: string;
  readonly remedy: Remedy;
}

export const RULE_TITLES = {
  "over-targets": "Traffic exceeds the cloud's scalability targets",
  "hot-partition": "A partition's traffic is near the cloud's target",
  "append-only-keys": "New entities always go to one end of the table",
  "one-partition": "The whole table is one partition",
  "many-partitions": "Related entities are spread over many small partitions",
  scan: "A query reads far more entities than it returns",
  "or-over-keys": "A filter with several keys is cheap here but a scan in the cloud",
  "wide-answers": "Large entities are returned without $select",
  "n-plus-one": "A list is followed by a point query for each of its entities",
  "single-writes": "Entities of one partition are written one by one",
  "read-before-write": "Entities are read only to decide how to write them",
  retries: "Requests are retried without backing off, or although they cannot succeed",
  "series-as-entities": "A series of values is stored as one entity per value",
  "bulk-reads": "A whole table is read repeatedly",
  connections: "Connections are not reused",
  "page-access":
    "Web pages use the account's key, are blocked by CORS, or send too many preflights",
  "old-clients": "Clients use retired or outdated libraries",
  "large-values": "Entities hold large values that belong in blobs",
} as const;

export type RuleName = keyof typeof RULE_TITLES;

/**
 * Looks for one mistake in one recording: receives it from beginning to end, and holds only counts and
 * examples, since a recording may contain millions of operations.
 */
export interface Rule extends TrafficListener {
  findings(observed: Observed): Finding[];
}

/** Everything there is to judge, once the recording has been read. */
export interface Observed extends RecordingEnd {
  readonly queries: number;
  readonly writes: number;
  readonly refusals: number;
  /** By `account/table`; empty when no data was given. */
  readonly data: ReadonlyMap<string, TableData>;
  /** Tables of the traffic and the data: paths of refusals spell table names in any case. */
  readonly tables: TableNames;
}

/** Facts about a table's data, from its first entities. */
export interface TableData {
  readonly entities: number;
  readonly samples: readonly EntitySample[];
  /** The key of the table's only partition; undefined where there are several, or none. */
  readonly onlyPartition: string | undefined;
}

export interface EntitySample {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly bytes: number;
  readonly properties: number;
  /** Whether all properties are numbers. */
  readonly numeric: boolean;
}

export function tableOf(event: TrafficEvent): string {
  return `${event.account}/${event.table}`;
}

export function nameOf(table: string): string {
  return table.slice(table.indexOf("/") + 1);
}

/** `1 client`, `2 clients`. */
export function counted(count: number, one: string, more = `${one}s`): string {
  return `${count} ${count === 1 ? one : more}`;
}

/** Groups items by key, in order of first appearance. */
export function groupBy<T>(items: Iterable<T>, keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** Returns the value of a key, creating it if it is missing. */
export function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

export function sumOf<T>(items: readonly T[], amountOf: (item: T) => number): number {
  return items.reduce((sum, item) => sum + amountOf(item), 0);
}
