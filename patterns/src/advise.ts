import { assertBetween, assertSome } from "./errors.ts";

/** How often a field is written and looked up, per day or any other period, as a meter counts. */
export interface Workload {
  /** Writes that change the field or a field the index copies. */
  readonly writes: number;
  /** Lookups by the field. */
  readonly reads: number;
}

type Counted = string | number | bigint | boolean | Date;

export interface AdviceOptions<Row> {
  /** The indexed value; several for a field that holds a list; undefined or null for none. Pure. */
  readonly valueIn: (row: Row) => Counted | readonly Counted[] | null | undefined;
  readonly workload: Workload;
  /** Whether the entries copy what the lookups need, so that no base is read. */
  readonly isCovering?: boolean;
  /** Rows in the whole table. Default: the number in the sample. */
  readonly rowsTotal?: number;
  /** Rows to look at, at most. Default: 10,000. */
  readonly sampleMax?: number;
}

export interface Advice {
  /** `sparse`: index all values but `commonest`, which is cheaper to find by a scan. */
  readonly verdict: "keep" | "sparse" | "drop";
  /** One sentence each, with the numbers behind it. */
  readonly reasons: readonly string[];
  readonly sampled: number;
  readonly distinct: number;
  readonly commonest: { readonly value: string; readonly share: number } | undefined;
  readonly entriesPerValue: number;
  /** Writes for each lookup; Infinity if there are no lookups. */
  readonly writesPerRead: number;
  /** Requests for a lookup of an average value, and for the scan that it saves. */
  readonly lookupRequests: number;
  readonly scanRequests: number;
}

const SAMPLE_MAX = 10_000;
const PAGE_ROWS = 1000;
/** A field with so few values hardly tells rows apart. */
const FEW_VALUES_MAX = 4;
const SKEWED_SHARE_MIN = 0.5;
/** If nearly all rows share one of few values, the other rows may still be worth finding. */
const FLAG_SHARE_MIN = 0.9;

/**
 * Judges from a sample of rows and a workload whether an index pays, and gives the numbers behind it. It stops
 * reading after `sampleMax` rows, so the sample may be the stream of a query.
 */
export async function advise<Row>(
  rows: AsyncIterable<Row> | Iterable<Row>,
  options: AdviceOptions<Row>,
): Promise<Advice> {
  const { valueIn, workload, sampleMax = SAMPLE_MAX, rowsTotal = 0 } = options;
  const { reads, writes } = workload;
  assertBetween("The advice", { reads, writes, rowsTotal }, 0);
  assertSome("The advice", { sampleMax });
  const counts = new Map<string, number>();
  let sampled = 0;
  for await (const row of rows) {
    sampled++;
    const values = [valueIn(row) ?? []].flat();
    for (const each of new Set(values.map(textOf))) counts.set(each, (counts.get(each) ?? 0) + 1);
    if (sampled >= sampleMax) break;
  }
  return judge(counts, sampled, options);
}

function judge<Row>(
  counts: ReadonlyMap<string, number>,
  sampled: number,
  { workload, isCovering = false, rowsTotal = sampled }: AdviceOptions<Row>,
): Advice {
  const { reads, writes } = workload;
  const scale = sampled === 0 ? 1 : rowsTotal / sampled;
  const scanRequests = Math.max(1, Math.ceil(rowsTotal / PAGE_ROWS));
  const requestsFor = (matches: number) =>
    Math.max(1, Math.ceil(matches / PAGE_ROWS)) + (isCovering ? 0 : Math.round(matches));
  /** What an index with these entries for these values costs and saves. */
  const weigh = (entries: number, values: number) => {
    const entriesPerValue = values === 0 ? 0 : (entries / values) * scale;
    const lookupRequests = requestsFor(entriesPerValue);
    const saved = Math.max(0, reads * (scanRequests - lookupRequests));
    const spent = writes * (sampled === 0 ? 1 : entries / sampled);
    const reason =
      `its writes cost ${round(spent)} requests and its lookups save ${round(saved)}: ` +
      `${lookupRequests} each instead of ${scanRequests}`;
    return { entriesPerValue, lookupRequests, pays: spent <= saved, reason };
  };
  const entries = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const all = weigh(entries, counts.size);
  const { entriesPerValue, lookupRequests } = all;
  const commonest = commonestOf(counts, sampled);
  const { value, share } = commonest ?? { value: "", share: 0 };
  const facts = {
    sampled,
    distinct: counts.size,
    commonest,
    entriesPerValue,
    writesPerRead: writes === 0 ? 0 : writes / reads,
    lookupRequests,
    scanRequests,
  };
  const commonCost = requestsFor(share * rowsTotal);
  const isSparse = share >= SKEWED_SHARE_MIN && commonCost > scanRequests;
  const rest = isSparse ? weigh(entries - share * sampled, counts.size - 1) : undefined;

  const drop: string[] = [];
  if (reads === 0) drop.push("no query uses it");
  if (counts.size <= FEW_VALUES_MAX && sampled > FEW_VALUES_MAX && share < FLAG_SHARE_MIN) {
    drop.push(`it has ${counts.size} values in ${sampled} rows: too few to narrow a query`);
  }
  if (reads > 0 && !(rest || all).pays) {
    drop.push(rest ? `without "${value}" ${rest.reason}` : all.reason);
  }
  if (drop.length > 0) return { verdict: "drop", reasons: drop, ...facts };
  if (rest) {
    const where = `"${value}" is in ${round(share * 100)} % of the rows`;
    const reason = `${where}: ${commonCost} requests to look up, ${scanRequests} to scan`;
    return { verdict: "sparse", reasons: [reason], ...facts };
  }
  const reason = `a lookup takes ${lookupRequests} requests, a scan ${scanRequests}`;
  return { verdict: "keep", reasons: [reason], ...facts };
}

function textOf(value: Counted): string {
  return value instanceof Date ? value.toISOString() : String(value);
}

function commonestOf(counts: ReadonlyMap<string, number>, sampled: number): Advice["commonest"] {
  let commonest: Advice["commonest"];
  for (const [value, count] of counts) {
    const share = count / sampled;
    if (!commonest || share > commonest.share) commonest = { value, share };
  }
  return commonest;
}

function round(number: number): number {
  return Math.round(number * 10) / 10;
}
