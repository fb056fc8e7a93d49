import type { Key } from "../engine.ts";
import { compareKeys } from "../key-codec.ts";
import { identify } from "./get.ts";
import type { Parameter } from "./query.ts";
import type { RowReader } from "./row-reader.ts";
import { SAMPLE, type Statement } from "./statements.ts";

/** As many rows as wanted are as long as this many keys of the sample are apart. With more, their number would vary less. */
const KEYS_PER_PAGE = 8;
/** Pages are looked up longer than wanted, for the caller to cut: mostly then no second one is needed for the rest. */
const PAGE_EXCESS = 1.5;
/** Pages that are looked up ahead for a caller who goes on where a page ended. */
const PAGES_AHEAD = 8;
/**
 * For one who goes on and on, twice as many each time, up to samples of so many keys and rows. Each shard looks for all
 * keys of a sample among its own rows: with 32 shards, every eight pages took a look at up to 262,144 rows.
 */
const KEYS_AHEAD_MAX = 1024;
const ROWS_AHEAD_MAX = 131_072;
/** Ranges that are remembered; the one asked for last is forgotten last. */
const RANGES_MAX = 256;

export interface ClosedRange {
  readonly start: Key;
  readonly end: Key;
}

export type OnRow = (row: RowReader) => void;
type Ask = (statement: Statement, parameters: readonly Parameter[], onRow: OnRow) => Promise<void>;

/** A part of a sample: one key in `rowsPerKey` rows, from `start` up to the last of `keys`. */
interface Sample {
  readonly rowsPerKey: number;
  readonly start: Key;
  readonly keys: readonly Key[];
  /** There are no more keys in the range. */
  readonly isLast: boolean;
}

/**
 * Where the pages of scans over shards end. Each shard knows only its own rows, so a page of a thousand rows is found by
 * a sample of all keys, of which the shards send a few instead of a thousand each. Samples are remembered, and may be
 * old: a page is then longer or shorter than wanted, and no less complete.
 */
export class ShardPages {
  /** By the end of the range, which is that of the table. */
  readonly #samples = new Map<string, Sample>();

  /** The first key behind a page that is mostly longer than `rows`; undefined if it may well reach the end of the range. */
  async endOf(range: ClosedRange, rows: number, ask: Ask): Promise<Key | undefined> {
    const { end } = range;
    const id = identify(end.partition, end.sort);
    const known = this.#samples.get(id);
    const own = 2 ** Math.max(0, Math.ceil(Math.log2(rows / KEYS_PER_PAGE)));
    // The short rest of a page must not replace the sample for the pages behind it.
    const isFine = known !== undefined && known.rowsPerKey <= rows;
    const rowsPerKey = isFine && known.rowsPerKey * KEYS_PER_PAGE >= own ? known.rowsPerKey : own;
    const keysPerPage = Math.ceil((PAGE_EXCESS * rows) / rowsPerKey);
    if (known?.rowsPerKey === rowsPerKey && compareKeys(known.start, range.start) <= 0) {
      const at = known.keys.findIndex((key) => compareKeys(key, range.start) > 0);
      const found = at < 0 ? undefined : known.keys[at + keysPerPage - 1];
      if (found || (at >= 0 && known.isLast)) return found;
    }
    const wanted = Math.max(known ? keysAhead(known, rowsPerKey) : 0, keysPerPage);
    const keys: Key[] = [];
    await ask(SAMPLE, [...boundsOf(range), rowsPerKey - 1, wanted], (row) => {
      keys.push({ partition: Buffer.from(row.bytes()), sort: Buffer.from(row.bytes()) });
    });
    this.#samples.delete(id);
    if (this.#samples.size >= RANGES_MAX) {
      const [oldest] = this.#samples.keys();
      this.#samples.delete(oldest!);
    }
    const isLast = keys.length < wanted;
    this.#samples.set(id, { rowsPerKey, start: range.start, keys, isLast });
    return keys[keysPerPage - 1];
  }
}

function keysAhead(known: Sample, rowsPerKey: number): number {
  const twice = known.rowsPerKey === rowsPerKey ? 2 * known.keys.length : 0;
  const most = Math.min(KEYS_AHEAD_MAX, ROWS_AHEAD_MAX / rowsPerKey);
  return Math.max(PAGES_AHEAD * KEYS_PER_PAGE, Math.min(twice, most));
}

export function boundsOf({ start, end }: ClosedRange): Parameter[] {
  return [start.partition, start.sort, end.partition, end.sort];
}
