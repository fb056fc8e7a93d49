import type { EntityContinuation } from "@rowhouse/protocol/query-options";
import type { Awaitable } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import type { Engine, Entry, Key, KeyRange, ScanEnd, WantedSorts } from "../engine/engine.ts";
import {
  after,
  decodeText,
  encodeText,
  keyBytes,
  partitionPrefixRange,
} from "../engine/key-codec.ts";
import type { QueryCost } from "../insight/insight.ts";
import type { KeyPosition, KeyRead, Plan } from "../query/plan.ts";
import type { Predicate } from "../query/predicate.ts";
import { recordOf } from "./entity-record.ts";
import type { IndexSource } from "./indexes/index-source.ts";
import { RecordView } from "./record-view.ts";
import { entityKey, positionKey } from "./table-keys.ts";

export interface PageRequest {
  /** The prefix of all keys of the table. */
  readonly prefix: Uint8Array;
  readonly plan: Plan;
  /** The plan's residual filter, compiled. */
  readonly predicate: Predicate | undefined;
  readonly entitiesMax: number;
  /** The page ends when entities of this size were taken: short pages are legal, endless ones are not. */
  readonly bytesMax: number;
  /** Milliseconds since 1970 by the reader's clock. */
  readonly deadline: number;
  /** The page ends soon after this many entities were read, whatever they were. Default: no limit. */
  readonly readMax?: number | undefined;
  /** Called for each entity of the page; the view is valid only during the call. */
  readonly take: (view: RecordView) => void;
  /** Finds the entities of the plan through indexes instead of by its reads. Default: none. */
  readonly source?: IndexSource | undefined;
  /** Whether the page shall end before the next entity. Default: no. */
  readonly isFull?: () => boolean;
}

export interface PageEnd {
  /** The first entity not on the page, which may not match; undefined if nothing is left to read. */
  readonly next: EntityContinuation | undefined;
  readonly work: Omit<QueryCost, "engineMicros">;
}

/** Points read in one snapshot, as long as their values fit the rest of the page. */
const POINTS_AT_ONCE = 250;
/** Ranges read in one snapshot, if the engine can: each would be a round trip to its database. */
const RANGES_AT_ONCE = 32;
/** Reading the clock costs as much as testing a filter. */
const ENTITIES_PER_CLOCK_LOOK = 128;

/**
 * Reads one page of a plan: its reads in order, until the page is full, its time is up, or nothing
 * is left. A page sees each partition in one snapshot. If the engine cannot continue in the same
 * snapshot, or a commit came between two reads of one partition, the page ends early.
 *
 * After filling the page, the reader looks for one more entity, to know whether to return a
 * continuation. That entity is not tested against the filter: finding the next match could mean
 * reading to the end of the table.
 *
 * With a source, entities come from there until the page is full. The look for one more is a scan all the same, so
 * pages and continuations are those of a scan.
 */
export class PageReader {
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #request: PageRequest;
  readonly #view = new RecordView();
  readonly #wanted: WantedSorts | undefined;
  #source: IndexSource | undefined;
  /** What is left to read once the source is done with: those of the plan, from where the source ended. */
  #reads: readonly KeyRead[];
  #readIndex = 0;
  #next: EntityContinuation | undefined;
  #entitiesRead = 0;
  #entitiesReturned = 0;
  #bytesRead = 0;
  #bytesReturned = 0;
  /** The engine's newest commit before the first read of the current partition. */
  #newestCommit: number | undefined;
  /** Whether the current read must show the state at that commit, and this is not confirmed yet. */
  #mustConfirm = false;
  #ended = false;
  #isOverdue = false;

  constructor(engine: Engine, clock: Clock, request: PageRequest) {
    this.#engine = engine;
    this.#clock = clock;
    this.#request = request;
    const { rowKeys } = request.plan;
    this.#source = request.source;
    this.#reads = request.plan.reads;
    this.#wanted = rowKeys && {
      bounds: rowKeys.map((rowKey) => encodeText(rowKey)),
      leftOut: (count) => this.#leftOut(count),
    };
  }

  read(): Awaitable<PageEnd> {
    if (this.#source) return this.#readSource(this.#source).then(() => this.read());
    while (!this.#ended && this.#readIndex < this.#reads.length) {
      const read = this.#reads[this.#readIndex]!;
      if (this.#readIndex > 0 && this.#clock.now() > this.#request.deadline) {
        this.#end(startOf(read));
        break;
      }
      this.#mustConfirm = this.#continuesPartition();
      if (!this.#mustConfirm) this.#newestCommit = this.#engine.newestCommit();
      else if (!this.#isSameSnapshot()) break;
      const ranges = this.#ranges();
      const step = ranges.length > 0 ? this.#scan(ranges) : this.#points();
      if (step instanceof Promise) return step.then(() => this.read());
    }
    return {
      next: this.#next,
      work: {
        entitiesRead: this.#entitiesRead,
        entitiesReturned: this.#entitiesReturned,
        bytesRead: this.#bytesRead,
      },
    };
  }

  /** Takes entities from the source until the page is full or nothing is left, and sets what is to be scanned then. */
  async #readSource(source: IndexSource): Promise<void> {
    let last: KeyPosition | undefined;
    this.#source = undefined;
    for (;;) {
      const candidates = await source.next();
      if (candidates === undefined) {
        this.#reads = [];
        return;
      }
      if (candidates === "scan") break;
      for (const entry of candidates.entries) {
        if (!this.#visit(entry)) return;
        if (!this.#isFull()) continue;
        const { partitionKey, rowKey } = this.#view;
        this.#reads = source.restAfter({ partitionKey, rowKey });
        return;
      }
      last = candidates.last;
    }
    this.#reads = source.restAfter(last);
  }

  /** Reads the next points, as many as can share a snapshot. */
  #points(): Awaitable<void> {
    const { bytesMax, prefix } = this.#request;
    const reads = this.#reads;
    const keys: Key[] = [];
    /** The index in the plan of each key's read. */
    const indexes: number[] = [];
    let index = this.#readIndex;
    for (; index < reads.length && keys.length < POINTS_AT_ONCE; index++) {
      const read = reads[index]!;
      if (read.kind !== "point") break;
      const key = entityKey(prefix, read.partitionKey, read.rowKey);
      // A key longer than the engine can hold belongs to no entity.
      if (keyBytes(key) > this.#engine.keyBytesMax) continue;
      keys.push(key);
      indexes.push(index);
    }
    // A full page still needs one more entity, however far away.
    const found = this.#engine.get(keys, Math.max(1, bytesMax - this.#bytesReturned));
    const take = (entries: readonly (Entry | undefined)[]) => {
      this.#takePoints(entries, indexes[entries.length] ?? index);
      // A filter may reject one group of large entities after another.
      if (entries.length < keys.length && !this.#ended) {
        return new Promise<void>((resolve) => setImmediate(resolve));
      }
    };
    return found instanceof Promise ? found.then(take) : take(found);
  }

  /** @param next index of the read after these points */
  #takePoints(entries: readonly (Entry | undefined)[], next: number): void {
    if (!this.#isSameSnapshot()) return;
    for (const entry of entries) {
      if (entry && !this.#visit(entry)) return;
    }
    this.#readIndex = next;
  }

  /**
   * The ranges that the next scan reads: one, or several of one partition with the points between
   * them, if the engine can scan several. Empty if the next reads are better read as points.
   */
  #ranges(): readonly KeyRange[] {
    const reads = this.#reads;
    const from = this.#readIndex;
    const first = reads[from]!;
    const several = this.#engine.supports.scanRanges
      ? reads.slice(from, from + RANGES_AT_ONCE)
      : [first];
    const { partitionKey } = startOf(first);
    const beyond = several.findIndex((read) => !isWithin(read, partitionKey));
    const together = several.slice(0, beyond < 0 ? several.length : Math.max(1, beyond));
    if (together.every((read) => read.kind === "point")) return [];
    return together.map((read) => this.#rangeOf(read));
  }

  #rangeOf(read: KeyRead): KeyRange {
    const { prefix } = this.#request;
    const { keyBytesMax } = this.#engine;
    if (read.kind === "point") {
      const key = entityKey(prefix, read.partitionKey, read.rowKey);
      return { start: key, end: after(key) };
    }
    return {
      start: positionKey(prefix, read.start, keyBytesMax),
      end: read.end ? positionKey(prefix, read.end, keyBytesMax) : partitionPrefixRange(prefix).end,
    };
  }

  #scan(ranges: readonly KeyRange[]): Awaitable<void> {
    const visit = (entry: Entry) => this.#visit(entry);
    const hints = {
      entriesExpected: this.#request.predicate
        ? Number.POSITIVE_INFINITY
        : this.#request.entitiesMax - this.#entitiesReturned + 1,
      wanted: this.#wanted,
    };
    const ended =
      ranges.length > 1
        ? this.#engine.scanRanges!(ranges, visit, hints)
        : this.#engine.scan(ranges[0]!, visit, hints);
    if (ended instanceof Promise) return ended.then((known) => this.#scanned(ranges, known));
    return this.#scanned(ranges, ended);
  }

  #scanned(ranges: readonly KeyRange[], ended: ScanEnd): Awaitable<void> {
    if (ended === "stopped" || !this.#isSameSnapshot()) return;
    if (ended === "complete") {
      this.#readIndex += ranges.length;
      return;
    }
    const { resumeAt } = ended;
    // Within a partition, a page must not mix snapshots, whatever was found in the first one. (An
    // engine that stops between partitions resumes at an empty sort part.)
    const isInPartition = ranges.length > 1 || (this.#entitiesRead > 0 && resumeAt.sort.length > 0);
    if (this.#isOverdue || isInPartition) {
      this.#end({
        partitionKey: decodeText(resumeAt.partition, this.#request.prefix.length),
        rowKey: decodeText(resumeAt.sort),
      });
      return;
    }
    return this.#scan([{ start: resumeAt, end: ranges[0]!.end }]);
  }

  /**
   * Whether the next read continues the partition of the last one. An empty last read counts as
   * well: a page that missed a later transaction must not return half of it.
   */
  #continuesPartition(): boolean {
    const reads = this.#reads;
    const last = reads[this.#readIndex - 1];
    if (last === undefined) return false;
    const end = last.kind === "point" ? last : last.end;
    if (end === undefined || (last.kind === "range" && end.rowKey === "")) return false;
    return end.partitionKey === startOf(reads[this.#readIndex]!).partitionKey;
  }

  /**
   * Whether the current read shows the required snapshot; if not, ends the page before it. Must be
   * called after the read has begun: if the number of the newest commit is unchanged then, all
   * reads since were of one snapshot.
   */
  #isSameSnapshot(): boolean {
    if (!this.#mustConfirm) return true;
    const newest = this.#newestCommit;
    if (newest === undefined || this.#engine.newestCommit() !== newest) {
      this.#end(startOf(this.#reads[this.#readIndex]!));
      return false;
    }
    return true;
  }

  #visit(entry: Entry): boolean {
    const { predicate, take } = this.#request;
    const view = this.#view;
    const value = recordOf(entry);
    if (this.#mustConfirm) {
      if (!this.#isSameSnapshot()) return false;
      this.#mustConfirm = false;
    }
    view.reset(value);
    if (this.#isFull()) {
      this.#end(view);
      return false;
    }
    this.#entitiesRead++;
    this.#bytesRead += value.length;
    if (
      this.#entitiesRead % ENTITIES_PER_CLOCK_LOOK === 0 &&
      (this.#clock.now() > this.#request.deadline || this.#isReadOut())
    ) {
      this.#end(view);
      return false;
    }
    if (predicate && !predicate(view)) return true;
    this.#entitiesReturned++;
    this.#bytesReturned += value.length;
    take(view);
    return true;
  }

  /**
   * Counts entities that the engine skipped because they cannot match. They count as read, on one
   * page only: those after the last entity of this page count here, because the next page begins
   * after them.
   */
  #leftOut(count: number): boolean {
    this.#entitiesRead += count;
    this.#isOverdue = this.#clock.now() > this.#request.deadline || this.#isReadOut();
    return !this.#isOverdue && !this.#isFull();
  }

  #isReadOut(): boolean {
    return this.#entitiesRead >= (this.#request.readMax ?? Number.POSITIVE_INFINITY);
  }

  #isFull(): boolean {
    const { entitiesMax, bytesMax, isFull } = this.#request;
    return (
      this.#entitiesReturned >= entitiesMax ||
      this.#bytesReturned >= bytesMax ||
      isFull?.() === true
    );
  }

  #end(next: KeyPosition): void {
    this.#next = { partitionKey: next.partitionKey, rowKey: next.rowKey };
    this.#ended = true;
  }
}

/** Whether everything the read covers is in this partition. */
function isWithin(read: KeyRead, partitionKey: string): boolean {
  const isOfOne = read.class !== "partition range" && read.class !== "table scan";
  return isOfOne && startOf(read).partitionKey === partitionKey;
}

function startOf(read: KeyRead): KeyPosition {
  return read.kind === "point" ? read : read.start;
}
