import type { AnyEntity, Database, KeyShape } from "@rowhouse/patterns";

/** How a partition key spreads the load. */
export interface Heat {
  readonly spread: "one partition" | "by time" | "by hash" | "by value";
  readonly text: string;
}

export function heatOf({ segments }: KeyShape, { rows }: AnyEntity): Heat {
  const [first] = segments;
  if (!first) {
    const text = "one partition takes the whole load: at most 2,000 entities per second";
    return { spread: "one partition", text };
  }
  if (first.form === "hashed") {
    return { spread: "by hash", text: `spread over buckets of ${first.field}` };
  }
  if (rows.fields[first.field]?.edm === "DateTime") {
    const text = `${first.field} comes first: the newest partition takes all inserts`;
    return { spread: "by time", text };
  }
  const fields = segments.map(({ field }) => field).join(", ");
  return { spread: "by value", text: `one partition for each ${fields}` };
}

export interface PartitionShare {
  readonly partitionKey: string;
  readonly rows: number;
}

const PAGE = 1000;
const SHOWN_MAX = 5;

/** The largest partitions among the first rows of a table. */
export async function samplePartitions(
  { tables }: Database,
  table: string,
  rowsMax: number,
): Promise<{ readonly sampled: number; readonly largest: readonly PartitionShare[] }> {
  const counts = new Map<string, number>();
  let sampled = 0;
  let continuation: Parameters<typeof tables.query>[1]["continuation"];
  do {
    const top = Math.min(PAGE, rowsMax - sampled);
    const page = await tables.query(table, {
      top,
      select: ["PartitionKey"],
      ...(continuation && { continuation }),
    });
    for (const { partitionKey } of page.entities) {
      counts.set(partitionKey, (counts.get(partitionKey) ?? 0) + 1);
    }
    sampled += page.entities.length;
    continuation = page.continuation;
  } while (continuation && sampled < rowsMax);
  const largest = Array.from(counts, ([partitionKey, rows]) => ({ partitionKey, rows }))
    .sort((a, b) => b.rows - a.rows)
    .slice(0, SHOWN_MAX);
  return { sampled, largest };
}
