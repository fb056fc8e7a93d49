import { type Advice, advise } from "@rowhouse/server/insight/advice/advise";
import { joinRecordings } from "@rowhouse/server/insight/advice/join-recordings";
import type { Finding, TableData } from "@rowhouse/server/insight/advice/rule";
import { FORMAT } from "@rowhouse/server/insight/recording";
import { parseEntities, type Row } from "./entities.ts";

/** Recordings as the server sends them, one after the other. */
export function splitRecordings(text: string): string[][] {
  const recordings: string[][] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith(`["${FORMAT}"`)) recordings.push([line]);
    else recordings.at(-1)?.push(line);
  }
  return recordings;
}

/** What is asked about a table's data. */
export interface Sample {
  readonly entities: number;
  readonly bytes: number;
  /** Of the only partition; undefined where there are several, or none. */
  readonly onlyPartition: string | undefined;
  /** The first entities, with minimal metadata. */
  readonly json: string;
}

const NUMBERS: ReadonlySet<string> = new Set(["Edm.Int32", "Edm.Int64", "Edm.Double"]);

function dataOf(rows: readonly Row[], { entities, bytes, onlyPartition }: Sample): TableData {
  const samples = rows.map(({ partitionKey, rowKey, cells }) => {
    const own = [...cells].filter(([name]) => name !== "Timestamp").map(([, cell]) => cell);
    const numeric = own.length > 0 && own.every(({ type }) => NUMBERS.has(type));
    // Cells may have been cut: the average tells large entities from small ones.
    return {
      ...{ partitionKey, rowKey, numeric },
      properties: own.length,
      bytes: bytes / entities,
    };
  });
  return { entities, samples, onlyPartition };
}

export interface LookedAt {
  readonly advice: Advice;
  /** Of the first operation, in milliseconds since 1970. */
  readonly since: number | undefined;
  readonly samples: ReadonlyMap<string, readonly Row[]>;
}

/**
 * The server's own advice, given in the page: the server only sends what it recorded.
 * @param sample reads some entities of a table, by name; undefined if that is not possible
 */
export async function adviseOn(
  text: string,
  account: string,
  sample: (table: string) => Promise<Sample | undefined>,
): Promise<LookedAt> {
  const recordings = splitRecordings(text);
  const tables = tablesIn(recordings.flat());
  const data = new Map<string, TableData>();
  const samples = new Map<string, readonly Row[]>();
  for (const table of tables.slice(0, TABLES_MAX)) {
    const found = await sample(table);
    if (!found) continue;
    const rows = parseEntities(found.json);
    data.set(`${account}/${table}`, dataOf(rows, found));
    samples.set(table, rows);
  }
  const advice = advise(joinRecordings(recordings), data);
  return { advice, samples, since: firstTime(recordings[0] ?? []) };
}

/** Each is walked once. */
const TABLES_MAX = 8;

function tablesIn(lines: readonly string[]): string[] {
  const names = new Set<string>();
  for (const line of lines)
    if (line.startsWith('["o"')) {
      const [, , , table]: unknown[] = JSON.parse(line);
      names.add(String(table));
    }
  return [...names];
}

function firstTime(lines: readonly string[]): number | undefined {
  const [, at] =
    /^\["[pqwr]",(\d+)/.exec(lines.find((line) => /^\["[pqwr]"/.test(line)) ?? "") ?? [];
  return at === undefined ? undefined : Number(at);
}

/** `Table: PartitionKey = A, RowKey = B` of a remedy's layout; undefined for other lines. */
export interface DrawnLayout {
  readonly table: string;
  readonly partitionKey: string;
  readonly rowKey: string;
}

export function drawnLayout(line: string): DrawnLayout | undefined {
  const [, table, partitionKey, rowKey] =
    /^(?:or )?(\w+): PartitionKey(?: =)? (.+?), RowKey(?: =)? (.+)$/.exec(line) ?? [];
  return table && partitionKey && rowKey ? { table, partitionKey, rowKey } : undefined;
}

export type Severity = "high" | "medium" | "low";

/** What costs most in the cloud first: refusals and scans, then repeated work, then the rest. */
export function severityOf({ rule }: Finding): Severity {
  if (["over-targets", "scan", "append-only-keys", "one-partition"].includes(rule)) return "high";
  if (["connections", "old-clients", "wide-answers", "retries"].includes(rule)) return "low";
  return "medium";
}

/** What queries and writes cost with a remedy; undefined where the remedy changes no keys. */
export function costAfter({ remedy: { pattern } }: Finding): string | undefined {
  return COSTS[pattern];
}

const COSTS: Readonly<Record<string, string>> = {
  "inter-partition secondary index":
    "1 range read of the index and, unless it holds what you read, 1 point read for each match; a write changes 1 more row, in another partition.",
  "intra-partition secondary index":
    "1 range read of the index and, unless it holds what you read, 1 point read for each match; a write changes 1 more row, in the same transaction.",
  "key spreading":
    "A write costs the same, in one of several partitions; a list is one query for each of them, in parallel.",
  "log tail": "The newest rows are one range read that begins at the beginning.",
  "data series in one entity": "1 point read for a whole period; a new value is 1 merge.",
  denormalization: "1 list and no lookups; a change of what was copied is written to each copy.",
  "entity group transactions": "1 request and 1 commit for up to 100 writes.",
  "compound key": "1 range read of the rows that are wanted.",
  "partition key for the query": "1 read of one partition.",
  projection: "The same rows read, and only the properties that are used sent.",
};
