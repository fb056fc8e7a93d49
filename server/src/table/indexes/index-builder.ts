import { BackgroundLoop, type BackgroundWork } from "../../catalog/background-loop.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Clock } from "../../clock.ts";
import {
  type AtomicWrite,
  type Check,
  type Engine,
  type Key,
  type KeyRange,
  PREMISE_FAILED,
  type Put,
} from "../../engine/engine.ts";
import {
  after,
  copyKey,
  decodeText,
  keyBytes,
  partitionPrefixRange,
} from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { recordOf } from "../entity-record.ts";
import { positionKey, tablePrefix } from "../table-keys.ts";
import type { TableValue } from "../table-value.ts";
import {
  BUILD_RATE,
  encodeProgress,
  forgetBuild,
  progressKey,
  readProgress,
} from "./index-build.ts";
import type { IndexCatalog, KeptIndex } from "./index-catalog.ts";
import { entryOf, type OpenIndex, openIndex } from "./open-index.ts";

export interface IndexBuilderOptions {
  readonly engine: Engine;
  readonly catalog: Catalog<TableValue>;
  readonly indexes: IndexCatalog;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

/**
 * Entities whose entries are written in the order of the index, as far as it goes: many of them then share the pages
 * that a commit writes. A build that is killed repeats as many.
 */
const RUN_ENTITIES = 100_000;
/** Of a build with a rate, which is as much as a kill takes from it. */
const RUN_SECONDS = 5;
/** Their keys and entries, which wait in memory. */
const RUN_BYTES = 2 ** 24;
/** Rows that are sorted in one go. */
const SORTED_AT_ONCE = 2000;
/** Entries of one commit. Others wait for it: a larger one saves little and delays them more. */
const COMMIT_ENTRIES = 250;
/** For builds without a rate, whose declaration says that others may wait: a quarter of the flushes. */
const FAST_COMMIT_ENTRIES = 1000;
const PERIOD_MS = 60_000;
/** As the reaper waits, and for the same reason: a write that began before the index was declared may still commit. */
const GRACE_MICROS = 60 * 1_000_000;

/** "built": a run was written. "waiting": for writers from before the index. "over": ready, or gone. */
export type BuildStep = "built" | "waiting" | "over";

/**
 * Builds indexes over tables that have entities, beside their readers and writers.
 *
 * Writers maintain an index from its declaration on, so only entities older than that lack entries. A commit of entries
 * asks that none of their entities has changed; for those that have, the entries are computed anew: a writer that left
 * the properties of the key alone has written none. The last commit of a run says how far the build has come. So there
 * is no order of events in which an entry is left out or left over, a kill repeats one run, and several processes may
 * build at once: they write the same entries.
 */
export class IndexBuilder implements BackgroundWork {
  readonly #options: IndexBuilderOptions;
  readonly #loop: BackgroundLoop;

  constructor(options: IndexBuilderOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.build(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Call it when an index was declared, or has to be built again. */
  wake(): void {
    this.#loop.wake();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /** Builds whatever is building. An index that fails delays no other; the first failure is thrown at the end. */
  async build(): Promise<void> {
    const { catalog, indexes } = this.#options;
    const failures: unknown[] = [];
    for (const account of catalog.accountNames) {
      for (const kept of await indexes.list(account)) {
        if (kept.index.state !== "building") continue;
        await this.#buildOne(account, kept).catch((error) => failures.push(error));
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  async #buildOne(account: string, { index: { name } }: KeptIndex) {
    let done: BuildStep = "built";
    while (!this.#loop.closed && done === "built") done = await this.step(account, name);
  }

  /** Builds one run of an index: the entries of some entities, in the order of the index. */
  async step(account: string, name: string, entitiesMax?: number): Promise<BuildStep> {
    const { engine, catalog, clock, indexes } = this.#options;
    const kept = await indexes.find(account, name);
    if (kept?.index.state !== "building") return "over";
    const { table, index } = kept;
    const { rate = BUILD_RATE } = index;
    const version = engine.nextVersion();
    if (index.awaitsWriters && version - index.since < GRACE_MICROS) return "waiting";
    const accountId = catalog.accountId(account);
    const key = progressKey(accountId, index.id);
    const progress = await readProgress(engine, key);
    const prefix = tablePrefix(accountId, table.id);
    const whole = partitionPrefixRange(prefix);
    const start = progress && positionKey(prefix, progress.next, engine.keyBytesMax);
    const run = await this.#read(start ? { ...whole, start } : whole, {
      open: openIndex(accountId, index),
      version,
      entitiesMax:
        entitiesMax ?? (rate > 0 ? Math.min(rate * RUN_SECONDS, RUN_ENTITIES) : RUN_ENTITIES),
    });
    const write = { version, premise: { key: table.key, version: table.version }, deletes: [] };
    if (!(await this.#write(run, write, rate))) return "built";
    if (!run.next) {
      await indexes.move(account, kept, ["building"], "ready");
      await forgetBuild(engine, accountId, index.id);
      return "over";
    }
    const done = {
      next: {
        partitionKey: decodeText(run.next.partition, prefix.length),
        rowKey: decodeText(run.next.sort),
      },
      entities: (progress?.entities ?? 0) + run.entities,
      entries: (progress?.entries ?? 0) + run.entries,
      total: progress ? progress.total : await this.#count(whole),
      startedAt: progress?.startedAt ?? clock.now(),
    };
    // Fails if another process came as far.
    await engine.commit({
      ...write,
      checks: [{ key, expected: progress?.version ?? "absent" }],
      puts: [{ key, value: encodeProgress(done) }],
    });
    return "built";
  }

  async #read(range: KeyRange, { open, version, entitiesMax }: RunOptions): Promise<Run> {
    const sorted: Row[][] = [];
    let rows: Row[] = [];
    let entities = 0;
    let entries = 0;
    let bytes = 0;
    // Stays undefined if the table ends before the run does.
    let last: Key | undefined;
    const end = await this.#options.engine.scan(
      range,
      (entry) => {
        const own = entryOf(open, recordOf(entry), version);
        entities++;
        if (own) {
          entries++;
          const row = packed(own, entry.key, entry.version);
          rows.push(row);
          bytes += row.length;
        }
        if (rows.length === SORTED_AT_ONCE) {
          sorted.push(rows.sort(Buffer.compare));
          rows = [];
        }
        const isLast = entities === entitiesMax || bytes >= RUN_BYTES;
        if (isLast) last = copyKey(entry.key);
        return !isLast;
      },
      { entriesExpected: Math.min(entitiesMax, SORTED_AT_ONCE) },
    );
    sorted.push(rows.sort(Buffer.compare));
    const next = typeof end === "object" ? end.resumeAt : last && after(last);
    return { open, sorted, entities, entries, next };
  }

  /** @returns false if there is nothing more to build: the table or the index changed, or the server stops */
  async #write(run: Run, write: RunWrite, rate: number): Promise<boolean> {
    const rows = inOrder(run.sorted);
    const entitiesEach = run.entities / run.entries;
    for (;;) {
      const began = performance.now();
      const some = take(rows, rate > 0 ? COMMIT_ENTRIES : FAST_COMMIT_ENTRIES);
      if (some.length === 0) return true;
      if (this.#loop.closed || !(await this.#commit(some.map(unpacked), run, write))) return false;
      const duration = rate > 0 ? (some.length * entitiesEach * 1000) / rate : 0;
      await pause(duration - (performance.now() - began));
    }
  }

  /** @returns false if the premise fails: the table or its indexes changed */
  async #commit(rows: readonly UnpackedRow[], run: Run, write: RunWrite): Promise<boolean> {
    if (rows.length === 0) return true;
    const { engine } = this.#options;
    const checks = rows.map(({ check }) => check);
    const result = await engine.commit({ ...write, checks, puts: rows.map(({ put }) => put) });
    if (result.committed) return true;
    if (result.failedCheck === PREMISE_FAILED) return false;
    const found = await engine.get(checks.map(({ key }) => key));
    const anew = checks.flatMap(({ key }, at) => {
      const entry = found[at];
      const put = entry && entryOf(run.open, recordOf(entry), write.version);
      return put ? [{ put, check: { key, expected: entry.version } }] : [];
    });
    // In halves, down to one: an entity that is written all the time must not hold up the others.
    const middle = anew.length >>> 1;
    return (
      (await this.#commit(anew.slice(0, middle), run, write)) &&
      (await this.#commit(anew.slice(middle), run, write))
    );
  }

  /** How much there is to build. An engine in another process would send all of it. */
  async #count(range: KeyRange): Promise<number | undefined> {
    const { engine } = this.#options;
    if (engine.newestCommit() === undefined) return undefined;
    let count = 0;
    await scanToEnd(engine, range, () => {
      count++;
      return true;
    });
    return count;
  }
}

/**
 * An entry to write with the key and version of its entity, in one piece: a hundred thousand rows of separate keys would
 * need four times the memory. The bytes begin with those of the entry's key, and are compared as a whole: nearly the
 * order of keys, which is all that is wanted of it.
 */
type Row = Buffer;

/** The lengths of four parts of keys, and the version. */
const ROW_END_BYTES = 4 * 2 + 8;

function packed(entry: Put, base: Key, version: number): Row {
  const parts = [entry.key.partition, entry.key.sort, base.partition, base.sort] as const;
  const size = keyBytes(entry.key) + keyBytes(base) + entry.value.length + ROW_END_BYTES;
  const row = Buffer.allocUnsafe(size);
  let at = 0;
  let lengthAt = size - ROW_END_BYTES;
  for (const part of parts) {
    row.set(part, at);
    at += part.length;
    lengthAt = row.writeUInt16LE(part.length, lengthAt);
  }
  row.set(entry.value, at);
  row.writeDoubleLE(version, lengthAt);
  return row;
}

interface UnpackedRow {
  readonly put: Put;
  readonly check: Check;
}

function unpacked(row: Row): UnpackedRow {
  let at = 0;
  let lengthAt = row.length - ROW_END_BYTES;
  const part = () => {
    const length = row.readUInt16LE(lengthAt);
    lengthAt += 2;
    at += length;
    return row.subarray(at - length, at);
  };
  const key = { partition: part(), sort: part() };
  const base = { partition: part(), sort: part() };
  return {
    put: { key, value: row.subarray(at, row.length - ROW_END_BYTES) },
    check: { key: base, expected: row.readDoubleLE(lengthAt) },
  };
}

interface RunOptions {
  readonly open: OpenIndex;
  readonly version: number;
  readonly entitiesMax: number;
}

type RunWrite = Omit<AtomicWrite, "checks" | "puts">;

interface Run {
  readonly open: OpenIndex;
  /** Each in the order of the index. */
  readonly sorted: readonly (readonly Row[])[];
  readonly entities: number;
  readonly entries: number;
  /** Where the next one begins; undefined at the end of the table. */
  readonly next: Key | undefined;
}

/** All rows in order, one by one: to sort them at once would keep everybody else waiting. */
function* inOrder(sorted: readonly (readonly Row[])[]): Generator<Row, undefined> {
  const [only] = sorted;
  if (sorted.length === 1 && only) {
    yield* only;
    return;
  }
  const middle = sorted.length >>> 1;
  const left = inOrder(sorted.slice(0, middle));
  const right = inOrder(sorted.slice(middle));
  let a = left.next().value;
  let b = right.next().value;
  while (a || b) {
    if (a && (!b || Buffer.compare(a, b) <= 0)) {
      yield a;
      a = left.next().value;
    } else if (b) {
      yield b;
      b = right.next().value;
    }
  }
}

function take(rows: Iterator<Row, undefined>, max: number): readonly Row[] {
  const taken: Row[] = [];
  while (taken.length < max) {
    const { value } = rows.next();
    if (!value) break;
    taken.push(value);
  }
  return taken;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (ms < 1) setImmediate(resolve);
    else setTimeout(resolve, ms);
  });
}
