import { type DecodedEntity, decodeEntity } from "@rowhouse/protocol/entity-json";
import { divideTable } from "./key-ranges.ts";
import { canonicalText, withoutEtag } from "./raw-entity.ts";
import { bothFilters, readPages } from "./read-table.ts";
import type { TableConnection } from "./table-endpoint.ts";
import type { TransferProgress } from "./transfer-progress.ts";

export interface CompareOptions {
  readonly from: TableConnection;
  readonly to: TableConnection;
  readonly table: string;
  readonly where: string | undefined;
  readonly parallel: number;
  readonly progress: TransferProgress;
  readonly onDifference: (difference: Difference) => void;
}

export interface Difference {
  readonly kind: "missing" | "surplus" | "different";
  readonly partitionKey: string;
  readonly rowKey: string;
}

/**
 * Reads both tables side by side, in the order of their keys, and reports every entity that is not the same in both:
 * every property with its type; Timestamps do not count.
 * @returns how many entities were compared
 */
export async function compareTables(options: CompareOptions): Promise<number> {
  const { from, table, where, parallel } = options;
  const ranges = await divideTable(from, table, where, parallel > 1 ? parallel * 4 : 1);
  let compared = 0;
  const work = async () => {
    for (let filter = ranges.shift(); ; filter = ranges.shift()) {
      const inRange = await compareRange(options, bothFilters(filter, where));
      compared += inRange;
      if (ranges.length === 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, ranges.length) }, work));
  return compared;
}

async function compareRange(options: CompareOptions, filter: string | undefined): Promise<number> {
  const { from, to, table, progress, onDifference } = options;
  const left = entitiesOf(from, table, filter);
  const right = entitiesOf(to, table, filter);
  let compared = 0;
  let source = await left.next();
  let copy = await right.next();
  while (!source.done || !copy.done) {
    const order = source.done ? 1 : copy.done ? -1 : compareKeys(source.value, copy.value);
    if (order < 0) onDifference(difference("missing", source.value!));
    else if (order > 0) onDifference(difference("surplus", copy.value!));
    else if (canonicalText(source.value!) !== canonicalText(copy.value!)) {
      onDifference(difference("different", source.value!));
    }
    compared++;
    if (compared % 1000 === 0) progress.add(1000);
    if (order <= 0) source = await left.next();
    if (order >= 0) copy = await right.next();
  }
  return compared;
}

async function* entitiesOf(
  connection: TableConnection,
  table: string,
  filter: string | undefined,
): AsyncGenerator<DecodedEntity, undefined> {
  for await (const { entities } of readPages(connection, { table, filter })) {
    for (const entity of entities) yield decodeEntity(withoutEtag(entity));
  }
  return undefined;
}

function difference(
  kind: Difference["kind"],
  { partitionKey, rowKey }: Pick<Difference, "partitionKey" | "rowKey">,
): Difference {
  return { kind, partitionKey, rowKey };
}

/** The service's order: UTF-16 code units. */
function compareKeys(a: DecodedEntity, b: DecodedEntity): number {
  return compareText(a.partitionKey, b.partitionKey) || compareText(a.rowKey, b.rowKey);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
