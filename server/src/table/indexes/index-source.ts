import type { Clock } from "../../clock.ts";
import type { Engine, Entry, Key, KeyRange } from "../../engine/engine.ts";
import { after as afterKey, copyKey } from "../../engine/key-codec.ts";
import { cutEntries, orderedEntries } from "../../query/indexes/index-key.ts";
import { type IndexPlan, type IndexScan, isAmong } from "../../query/indexes/index-planner.ts";
import { isBefore, type KeyPosition, type KeyRead } from "../../query/plan.ts";
import { resumePlan } from "../../query/planner.ts";
import type { Predicate } from "../../query/predicate.ts";
import { recordOf } from "../entity-record.ts";
import { RecordView } from "../record-view.ts";
import { entityKey, positionKey } from "../table-keys.ts";
import { baseOf, type OpenIndex } from "./open-index.ts";

export interface IndexSourceOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly plan: IndexPlan;
  /** The prefix of the keys of the table. */
  readonly prefix: Uint8Array;
  readonly indexes: readonly OpenIndex[];
  readonly predicate: Predicate;
  readonly entitiesMax: number;
  readonly bytesMax: number;
  readonly deadline: number;
}

/** The next entities to test; "scan" to find the rest by scanning; undefined if there are no more. */
export type Candidates =
  | { readonly entries: readonly Entry[]; readonly last: KeyPosition }
  | "scan"
  | undefined;

/** Entities fetched in one snapshot. */
const FETCHED_AT_ONCE = 250;
/** Entries of a run that are read first: most look-ups find few. */
const FIRST_ENTRIES = 64;
/** Entries whose keys were cut are sorted in memory. */
const CUT_ENTRIES_MAX = 10_000;
/** Keys of an interval that are read before the question is asked whether a scan would be cheaper. */
const COLLECTED_UNASKED = 2000;
const COLLECTED_MAX = 100_000;
/** Entities read to learn how many of them match. */
const PROBED = 1000;
/** Fetching a match costs about as much as scanning two entities. */
const SCANNED_SHARE = 0.4;
/** Reading one key of an interval costs as much as scanning 1.7 entities, which are 0.6 / selectivity. */
const KEYS_PER_SCANNED = 0.6;
/** A read of entries and entities between which something was committed is repeated this often. */
const TRIES = 5;

const NONE: readonly KeyPosition[] = [];

/**
 * Finds the entities of a page through indexes, in the order of their keys. Among them is everything that matches; each
 * is still to be tested.
 *
 * Entries and entities are read one after the other. If the engine can tell that something was committed in between,
 * both are read again. Otherwise, or if writers never pause, an entity may be found or missed a moment early or late,
 * but each is tested as it is.
 */
export class IndexSource {
  readonly #options: IndexSourceOptions;
  readonly #runs: readonly Run[];
  readonly #view = new RecordView();
  /** The last candidate that was returned. */
  #after: KeyPosition | undefined;
  /** Keys that were collected but not fetched yet, and the newest commit before they were. */
  #collected: readonly KeyPosition[] = NONE;
  #collectedAt: number | undefined;
  /** Whether nothing follows them. */
  #hasCollectedAll = false;
  #produced = 0;
  #hasAsked = false;
  #collectedMax = COLLECTED_UNASKED;
  /** Entries read from index tables. */
  entriesRead = 0;
  /** Whether the rest of the page was left to a scan. */
  wasGivenUp = false;

  constructor(options: IndexSourceOptions) {
    this.#options = options;
    const { plan } = options;
    this.#runs =
      plan.shape === "runs"
        ? plan.branches.flatMap(({ index, scans }) => {
            const open = options.indexes.find((each) => each.index === index)!;
            return scans.map((scan) => new Run(open, scan, options.engine));
          })
        : [];
  }

  async next(): Promise<Candidates> {
    const { engine, plan } = this.#options;
    for (let tries = 1; ; tries++) {
      if (this.#collected.length === 0) this.#collectedAt = engine.newestCommit();
      const keys = plan.shape === "runs" ? await this.#merge() : await this.#nextCollected();
      if (keys === "scan") {
        this.wasGivenUp = true;
        return "scan";
      }
      if (keys.length === 0) return undefined;
      const fetched = await this.#fetch(keys);
      const newest = this.#collectedAt;
      if (newest !== undefined && engine.newestCommit() !== newest && tries < TRIES) {
        this.#goBack();
        continue;
      }
      const last = keys[fetched.length - 1]!;
      this.#after = last;
      if (fetched.length < keys.length) this.#goBack();
      else this.#collected = this.#collected.slice(keys.length);
      this.#produced += fetched.length;
      return { entries: fetched.filter((entry) => entry !== undefined), last };
    }
  }

  /** Forgets what was read behind the last candidate that was returned. */
  #goBack(): void {
    this.#collected = NONE;
    this.#hasCollectedAll = false;
    for (const run of this.#runs) run.rewind(this.#after);
  }

  async #nextCollected(): Promise<readonly KeyPosition[] | "scan"> {
    if (this.#collected.length === 0 && !this.#hasCollectedAll) {
      const collected = await this.#collect();
      if (collected === "scan") return "scan";
      this.#collected = collected;
    }
    return this.#collected.slice(0, FETCHED_AT_ONCE);
  }

  /** What is left to scan once candidates up to `last` were tested. */
  restAfter(last: KeyPosition | undefined): readonly KeyRead[] {
    const { plan } = this.#options.plan;
    if (!last) return plan.reads;
    const { partitionKey, rowKey } = last;
    return resumePlan(plan, { partitionKey, rowKey: `${rowKey}\0` }).reads;
  }

  /** As many as fit the rest of the page. */
  #fetch(keys: readonly KeyPosition[]) {
    const { engine, prefix, bytesMax } = this.#options;
    return engine.get(
      keys.map(({ partitionKey, rowKey }) => entityKey(prefix, partitionKey, rowKey)),
      bytesMax,
    );
  }

  /** The next keys of all runs together, without duplicates. */
  async #merge(): Promise<readonly KeyPosition[] | "scan"> {
    const { clock, deadline, plan } = this.#options;
    const wanted = this.#produced === 0 ? FIRST_ENTRIES : FETCHED_AT_ONCE;
    if (this.#produced >= FETCHED_AT_ONCE && (await this.#isScanCheaper())) return "scan";
    const merged: KeyPosition[] = [];
    while (merged.length < wanted) {
      let first: Run | undefined;
      for (const run of this.#runs) {
        if (run.isEmpty) {
          this.entriesRead += await run.fill(wanted, this.#view);
          if (run.isUnordered) return "scan";
        }
        const head = run.head;
        if (head && (!first || isBefore(head, first.head))) first = run;
      }
      if (!first) break;
      const key = first.head!;
      for (const run of this.#runs) run.skip(key);
      if (isAmong(plan.plan.reads, key)) merged.push(key);
      if (clock.now() > deadline) return "scan";
    }
    return merged;
  }

  /** The smallest keys of all intervals, behind those that were returned. */
  async #collect(): Promise<readonly KeyPosition[] | "scan"> {
    const { clock, deadline, engine, entitiesMax, indexes, plan } = this.#options;
    // One page, if all of them match.
    const wanted = entitiesMax + 1;
    const smallest = new Smallest(wanted);
    let collected = 0;
    for (const { index, scans } of plan.branches) {
      const open = indexes.find((each) => each.index === index)!;
      for (const { entries } of scans) {
        let range = rangeOf(open, entries, engine.keyBytesMax);
        for (;;) {
          let last = range.start;
          const end = await engine.scan(range, (entry) => {
            collected++;
            this.#view.reset(recordOf(entry));
            const base = baseOf(this.#view);
            const isBehind = this.#after === undefined || isBefore(this.#after, base);
            if (isBehind && isAmong(plan.plan.reads, base)) smallest.add(base);
            if (collected < this.#collectedMax) return true;
            last = copyKey(entry.key);
            return false;
          });
          if (end === "complete") break;
          if (end === "stopped") {
            if (this.#hasAsked || (await this.#isScanCheaper())) {
              this.entriesRead += collected;
              return "scan";
            }
            range = { start: afterKey(last), end: range.end };
          } else range = { start: end.resumeAt, end: range.end };
          if (clock.now() > deadline) return "scan";
        }
      }
    }
    this.entriesRead += collected;
    const sorted = smallest.sorted();
    this.#hasCollectedAll = sorted.length < wanted;
    return sorted;
  }

  /**
   * Asks once, when it has turned out that many entries match: reads some entities, counts how many match, and estimates
   * what a page by scan costs.
   */
  async #isScanCheaper(): Promise<boolean> {
    if (this.#hasAsked) return false;
    this.#hasAsked = true;
    const { engine, entitiesMax, plan, predicate, prefix } = this.#options;
    const [read] = this.restAfter(this.#after);
    if (read?.kind !== "range") return true;
    let probed = 0;
    let matched = 0;
    const range = {
      start: positionKey(prefix, read.start, engine.keyBytesMax),
      end: read.end && positionKey(prefix, read.end, engine.keyBytesMax),
    };
    const end = await engine.scan(
      range.end ? range : { start: range.start, end: undefined },
      (entry) => {
        if (!startsWith(entry.key.partition, prefix)) return false;
        this.#view.reset(recordOf(entry));
        probed++;
        if (predicate(this.#view)) matched++;
        return probed < PROBED;
      },
      { entriesExpected: PROBED },
    );
    if (end !== "stopped" && plan.plan.reads.length === 1) return true;
    const share = Math.max(matched, 0.5) / Math.max(probed, 1);
    if (plan.shape === "runs") return share > SCANNED_SHARE;
    this.#collectedMax = Math.min(COLLECTED_MAX, (KEYS_PER_SCANNED * entitiesMax) / share);
    return this.#collectedMax <= COLLECTED_UNASKED;
  }
}

/** The entries of a run, in the order of their entities. */
class Run {
  readonly #open: OpenIndex;
  readonly #scan: IndexScan;
  readonly #engine: Engine;
  #range: KeyRange | undefined;
  #keys: readonly KeyPosition[] = NONE;
  #at = 0;
  /** Where it begins. */
  #from: KeyPosition;
  /** Entries whose keys were cut, sorted; undefined before they were read. */
  #cut: readonly KeyPosition[] | undefined;
  isUnordered = false;

  constructor(open: OpenIndex, scan: IndexScan, engine: Engine) {
    this.#open = open;
    this.#scan = scan;
    this.#engine = engine;
    this.#from = scan.run!.from;
    this.rewind(undefined);
  }

  /** Begins again behind `last`. */
  rewind(last: KeyPosition | undefined): void {
    const { partitionKey, rowPrefix, from, to } = this.#scan.run!;
    const start = last === undefined || isBefore(last, from) ? from : behind(last);
    this.#from = start;
    this.#keys = NONE;
    this.#at = 0;
    this.#cut = undefined;
    const ordered = orderedEntries(this.#open.index, partitionKey, rowPrefix, start, to);
    this.#range = rangeOf(this.#open, ordered, this.#engine.keyBytesMax);
  }

  get head(): KeyPosition | undefined {
    return this.#keys[this.#at];
  }

  /** Whether nothing is known to come next, though there may be more. */
  get isEmpty(): boolean {
    return this.#at >= this.#keys.length && this.#range !== undefined;
  }

  /** Skips an entity that was returned. */
  skip(key: KeyPosition): void {
    const { head } = this;
    if (head && head.partitionKey === key.partitionKey && head.rowKey === key.rowKey) this.#at++;
  }

  /** Reads on; returns how many entries were read. */
  async fill(wanted: number, view: RecordView): Promise<number> {
    let read = 0;
    const { partitionKey, rowPrefix, to } = this.#scan.run!;
    if (this.#cut === undefined && to === undefined) {
      // Most runs are short: one scan then reads both kinds of entries.
      const whole = rangeOf(
        this.#open,
        cutEntries(partitionKey, rowPrefix),
        this.#engine.keyBytesMax,
      );
      const all: KeyPosition[] = [];
      read += await this.#read({ start: this.#range!.start, end: whole.end }, wanted, all, view);
      if (all.length < wanted) {
        this.#cut = NONE;
        this.#range = undefined;
        this.#keys = all.filter((key) => !isBefore(key, this.#from)).sort(compare);
        this.#at = 0;
        return read;
      }
    }
    if (this.#cut === undefined) {
      const cut: KeyPosition[] = [];
      const range = rangeOf(
        this.#open,
        cutEntries(partitionKey, rowPrefix),
        this.#engine.keyBytesMax,
      );
      read += await this.#read(range, CUT_ENTRIES_MAX, cut, view);
      if (cut.length >= CUT_ENTRIES_MAX) this.isUnordered = true;
      this.#cut = cut.filter((key) => !isBefore(key, this.#from)).sort(compare);
    }
    const keys: KeyPosition[] = [];
    read += await this.#read(this.#range!, wanted, keys, view);
    const last = keys.at(-1);
    const isOver = this.#range === undefined;
    const cut = this.#cut.filter((key) => isOver || (last !== undefined && isBefore(key, last)));
    if (cut.length > 0) {
      this.#cut = this.#cut.filter((key) => !cut.includes(key));
      keys.push(...cut);
      keys.sort(compare);
    }
    this.#keys = keys;
    this.#at = 0;
    return read;
  }

  /** Reads up to `max` entries into `keys`. If the range was that of the run, it becomes the rest of it. */
  async #read(
    range: KeyRange,
    max: number,
    keys: KeyPosition[],
    view: RecordView,
  ): Promise<number> {
    const isRun = range === this.#range;
    let rest: KeyRange | undefined = range;
    while (rest !== undefined && keys.length < max) {
      let last: Key = rest.start;
      const end: Awaited<ReturnType<Engine["scan"]>> = await this.#engine.scan(
        rest,
        (entry) => {
          view.reset(recordOf(entry));
          keys.push(baseOf(view));
          if (keys.length < max) return true;
          last = copyKey(entry.key);
          return false;
        },
        { entriesExpected: max },
      );
      if (end === "complete") rest = undefined;
      else rest = { start: end === "stopped" ? afterKey(last) : end.resumeAt, end: range.end };
    }
    if (isRun) this.#range = rest;
    return keys.length;
  }
}

/** Keeps the smallest of many keys, each once. */
class Smallest {
  readonly #count: number;
  #keys: KeyPosition[] = [];
  /** No key above it is among the smallest. */
  #largest: KeyPosition | undefined;

  constructor(count: number) {
    this.#count = count;
  }

  add(key: KeyPosition): void {
    if (this.#largest && !isBefore(key, this.#largest)) return;
    this.#keys.push(key);
    // Sorting now and then takes a constant number of comparisons for each key.
    if (this.#keys.length >= 2 * this.#count + 64) this.#shrink();
  }

  sorted(): readonly KeyPosition[] {
    this.#shrink();
    return this.#keys;
  }

  #shrink(): void {
    const sorted = this.#keys.sort(compare);
    const unique = sorted.filter((key, at) => at === 0 || compare(sorted[at - 1]!, key) !== 0);
    this.#keys = unique.slice(0, this.#count);
    if (this.#keys.length === this.#count) this.#largest = this.#keys.at(-1);
  }
}

function rangeOf(
  { prefix }: OpenIndex,
  { start, end }: IndexScan["entries"],
  keyBytesMax: number,
): KeyRange {
  return {
    start: positionKey(prefix, start, keyBytesMax),
    end: positionKey(prefix, end, keyBytesMax),
  };
}

function behind({ partitionKey, rowKey }: KeyPosition): KeyPosition {
  return { partitionKey, rowKey: `${rowKey}\0` };
}

function compare(a: KeyPosition, b: KeyPosition): number {
  return isBefore(a, b) ? -1 : isBefore(b, a) ? 1 : 0;
}

function startsWith(bytes: Uint8Array, prefix: Uint8Array): boolean {
  for (let at = 0; at < prefix.length; at++) if (bytes[at] !== prefix[at]) return false;
  return true;
}
