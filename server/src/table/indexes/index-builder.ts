import { BackgroundLoop, type BackgroundWork } from "../../catalog/background-loop.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Clock } from "../../clock.ts";
import {
  type AtomicWrite,
  type Engine,
  type Key,
  type KeyRange,
  PREMISE_FAILED,
  type Premise,
} from "../../engine/engine.ts";
import { after, copyKey, decodeText, partitionPrefixRange } from "../../engine/key-codec.ts";
import { recordOf } from "../entity-record.ts";
import { positionKey, tablePrefix } from "../table-keys.ts";
import type { TableValue } from "../table-value.ts";
import { type CheckedPut, EntryRun } from "./entry-run.ts";
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
/** At the rate of the build, so that a slow one often says how far it has come. */
const RUN_SECONDS = 5;
/** Their keys and entries, which wait in memory. */
const RUN_BYTES = 2 ** 24;
/** Entities that a build with a rate reads, or writes the entries of, at once: others wait for them. */
const ENTITIES_AT_ONCE = 100;
/** Those of an engine in another process, which answers others meanwhile. */
const ENTITIES_AT_ONCE_ELSEWHERE = 250;
/** It reads them so many times as fast as its rate. */
const READ_RATE = 4;
/** The same for those that it counts. */
const COUNTED_ENTITIES = 2000;
const COUNT_RATE = 20;
/** A hint for engines that fetch entries ahead. */
const SCANNED_AT_ONCE = 2000;
/** Entries of one commit of a build without a rate, whose declaration says that others may wait. */
const FAST_COMMIT_ENTRIES = 1000;
/**
 * In the engine's own process a build with a rate rests so many times as long as it works, whatever the rate: without that,
 * a busy server does the build's work first, and its readers wait.
 */
const RESTS = 3;
/** A server that stops waits as long for a build. */
const PAUSE_MS = 100;
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
    const entries = new EntryRun();
    while (!this.#loop.closed && done === "built") {
      done = await this.step(account, name, undefined, entries);
    }
  }

  /**
   * Builds one run of an index: the entries of some entities, in the order of the index.
   * @param entitiesMax for one who waits for it: then without pauses
   */
  async step(
    account: string,
    name: string,
    entitiesMax?: number,
    entries = new EntryRun(),
  ): Promise<BuildStep> {
    const { engine, catalog, clock, indexes } = this.#options;
    const kept = await indexes.find(account, name);
    if (kept?.index.state !== "building") return "over";
    const { table, index } = kept;
    const { rate = BUILD_RATE } = entitiesMax === undefined ? index : { rate: 0 };
    if (index.awaitsWriters && engine.nextVersion() - index.since < GRACE_MICROS) return "waiting";
    const accountId = catalog.accountId(account);
    const key = progressKey(accountId, index.id);
    const progress = await readProgress(engine, key);
    const prefix = tablePrefix(accountId, table.id);
    const whole = partitionPrefixRange(prefix);
    const start = progress && positionKey(prefix, progress.next, engine.keyBytesMax);
    const run = await this.#read(start ? { ...whole, start } : whole, {
      open: openIndex(accountId, index),
      entries,
      rate,
      entitiesMax:
        entitiesMax ?? (rate > 0 ? Math.min(rate * RUN_SECONDS, RUN_ENTITIES) : RUN_ENTITIES),
    });
    const premise = { key: table.key, version: table.version };
    if (!(await this.#write(run, premise, rate))) return "built";
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
      entries: (progress?.entries ?? 0) + run.entries.length,
      total: progress ? progress.total : await this.#count(whole, rate),
      startedAt: progress?.startedAt ?? clock.now(),
    };
    // Fails if another process came as far.
    await engine.commit({
      version: engine.nextVersion(),
      premise,
      deletes: [],
      checks: [{ key, expected: progress?.version ?? "absent" }],
      puts: [{ key, value: encodeProgress(done) }],
    });
    return "built";
  }

  async #read(range: KeyRange, options: RunOptions): Promise<Run> {
    const { open, entries, entitiesMax, rate } = options;
    const began = performance.now();
    entries.clear();
    const heldAt = this.#options.engine.newestCommit();
    let entities = 0;
    let next: Key | undefined = range.start;
    const isFull = () => entities === entitiesMax || entries.bytes >= RUN_BYTES;
    while (next && !isFull()) {
      const max = rate > 0 ? Math.min(entities + this.#atOnce(), entitiesMax) : entitiesMax;
      // Stays undefined if the table ends.
      let last: Key | undefined;
      const from = performance.now();
      const end = await this.#options.engine.scan(
        { start: next, end: range.end },
        (entry) => {
          entities++;
          const own = entryOf(open, recordOf(entry), entry.version);
          if (own) entries.add(own, entry.key, entry.version);
          const isLast = entities === max || isFull();
          if (isLast) last = copyKey(entry.key);
          return !isLast;
        },
        { entriesExpected: Math.min(max - entities, SCANNED_AT_ONCE) },
      );
      next = typeof end === "object" ? end.resumeAt : last && after(last);
      if (rate > 0) await this.#rest(from, began + (entities * 1000) / (READ_RATE * rate));
    }
    await entries.sort((from) => (rate > 0 ? this.#rest(from, 0) : nextTurn()));
    return { open, entries, entities, heldAt, next, began };
  }

  /** @returns false if there is nothing more to build: the table or the index changed, or the server stops */
  async #write(
    { open, entries, entities, heldAt, began }: Run,
    premise: Premise,
    rate: number,
  ): Promise<boolean> {
    const { engine } = this.#options;
    const start = performance.now();
    const endsAt = began + (rate > 0 ? (entities * 1000) / rate : 0);
    for (let written = 0; ; ) {
      // A version of its own for each commit: an engine need not look for newer ones where it puts the newest.
      const version = engine.nextVersion();
      const from = performance.now();
      const some = entries.take(rate > 0 ? this.#atOnce() : FAST_COMMIT_ENTRIES, version);
      if (some.length === 0) return true;
      if (this.#loop.closed || !(await this.#commit(some, open, { version, heldAt, premise })))
        return false;
      written += some.length;
      if (rate > 0) await this.#rest(from, start + ((endsAt - start) * written) / entries.length);
      else await nextTurn();
    }
  }

  /**
   * Lets others work at least once. Ends early when the server stops.
   * @param from when the work began after which it rests. @param due when the next may begin at the earliest
   */
  async #rest(from: number, due: number): Promise<void> {
    const now = performance.now();
    const until = this.#isEngineHere() ? Math.max(due, now + RESTS * (now - from)) : due;
    do {
      const ms = Math.min(PAUSE_MS, until - performance.now());
      await (ms < 1 ? nextTurn() : new Promise((resolve) => setTimeout(resolve, ms)));
    } while (performance.now() + 1 < until && !this.#loop.closed);
  }

  #atOnce(): number {
    return this.#isEngineHere() ? ENTITIES_AT_ONCE : ENTITIES_AT_ONCE_ELSEWHERE;
  }

  #isEngineHere(): boolean {
    return this.#options.engine.newestCommit() !== undefined;
  }

  /** @returns false if the premise fails: the table or its indexes changed */
  async #commit(rows: readonly CheckedPut[], open: OpenIndex, write: RunWrite): Promise<boolean> {
    if (rows.length === 0) return true;
    const { engine } = this.#options;
    const checks = rows.map(({ check }) => check);
    const puts = rows.map(({ put }) => put);
    const result = await engine.commit({ ...write, checks, puts, deletes: [] });
    if (result.committed) return true;
    if (result.failedCheck === PREMISE_FAILED) return false;
    const heldAt = engine.newestCommit();
    const found = await engine.get(checks.map(({ key }) => key));
    const anew = checks.flatMap(({ key }, at) => {
      const entry = found[at];
      const put = entry && entryOf(open, recordOf(entry), write.version);
      return put ? [{ put, check: { key, expected: entry.version } }] : [];
    });
    // In halves, down to one: an entity that is written all the time must not hold up the others.
    const middle = anew.length >>> 1;
    return (
      (await this.#commit(anew.slice(0, middle), open, { ...write, heldAt })) &&
      (await this.#commit(anew.slice(middle), open, { ...write, heldAt }))
    );
  }

  /** How much there is to build. An engine in another process would send all of it. */
  async #count(range: KeyRange, rate: number): Promise<number | undefined> {
    const { engine } = this.#options;
    if (!this.#isEngineHere()) return undefined;
    const began = performance.now();
    let count = 0;
    let next: Key | undefined = range.start;
    while (next && !this.#loop.closed) {
      let last: Key | undefined;
      const from = performance.now();
      const end = await engine.scan({ start: next, end: range.end }, ({ key }) => {
        if (++count % COUNTED_ENTITIES === 0) last = copyKey(key);
        return last === undefined;
      });
      next = typeof end === "object" ? end.resumeAt : last && after(last);
      if (rate > 0) await this.#rest(from, began + (count * 1000) / (COUNT_RATE * rate));
    }
    return count;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

interface RunOptions {
  readonly open: OpenIndex;
  /** Whose memory is used again. */
  readonly entries: EntryRun;
  readonly entitiesMax: number;
  readonly rate: number;
}

type RunWrite = Pick<AtomicWrite, "version" | "heldAt" | "premise">;

/** What was read of the table, and its entries. */
interface Run {
  readonly open: OpenIndex;
  readonly entries: EntryRun;
  readonly entities: number;
  /** See `AtomicWrite`. */
  readonly heldAt: number | undefined;
  /** Where the next one begins; undefined at the end of the table. */
  readonly next: Key | undefined;
  /** By the clock of this process. */
  readonly began: number;
}
