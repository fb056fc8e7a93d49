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
import { RecordView } from "./record-view.ts";
import { entityKey, positionKey } from "./table-keys.ts";

export interface PageRequest {
  /** What every key of the table begins with. */
  readonly prefix: Uint8Array;
  readonly plan: Plan;
  /** The plan's residual filter, compiled. */
  readonly predicate: Predicate | undefined;
  readonly entitiesMax: number;
  /** The page ends when this much was taken: short pages are legal, endless ones are not. */
  readonly bytesMax: number;
  /** Milliseconds since 1970 by the reader's clock. */
  readonly deadline: number;
  /** Called for each entity of the page; the bytes are borrowed. */
  readonly take: (view: RecordView) => void;
}

export interface PageEnd {
  /** The first entity not on the page, which may not match; undefined when nothing is left to read. */
  readonly next: EntityContinuation | undefined;
  readonly work: Omit<QueryCost, "engineMicros">;
}

/** Points read in one snapshot, while their values are no more than a page may still take. */
const POINTS_AT_ONCE = 250;
/** Ranges read in one snapshot where an engine does that: each is a round trip to its database. */
const RANGES_AT_ONCE = 32;
/** Asking the clock costs as much as testing a filter. */
const ENTITIES_PER_CLOCK_LOOK = 128;

/**
 * Reads one page of a plan: its reads in order, until the page is full, its time is over, or
 * nothing is left. A page sees each partition in one snapshot; where an engine cannot go on in the
 * same one, or a commit came between two reads of one partition, the page ends early.
 *
 * A full page looks one entity further, to know whether to answer a continuation. That entity is not
 * tested against the filter: finding the next match may mean reading to the end of the table.
 */
export class PageReader {
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #request: PageRequest;
  readonly #view = new RecordView();
  readonly #wanted: WantedSorts | undefined;
  #readIndex = 0;
  #next: EntityContinuation | undefined;
  #entitiesRead = 0;
  #entitiesReturned = 0;
  #bytesRead = 0;
  #bytesReturned = 0;
  /** The engine's newest commit before the first read of the partition that is read now. */
  #newestCommit: number | undefined;
  /** Whether what is read now must be as it was at that commit, and was not yet found to be. */
  #mustStand = false;
  #ended = false;
  #isOverdue = false;

  constructor(engine: Engine, clock: Clock, request: PageRequest) {
    this.#engine = engine;
    this.#clock = clock;
    this.#request = request;
    const { rowKeys } = request.plan;
    this.#wanted = rowKeys && {
      bounds: rowKeys.map((rowKey) => encodeText(rowKey)),
      leftOut: (count) => this.#leftOut(count),
    };
  }

  read(): Awaitable<PageEnd> {
    const { reads } = this.#request.plan;
    while (!this.#ended && this.#readIndex < reads.length) {
      const read = reads[this.#readIndex]!;
      if (this.#readIndex > 0 && this.#clock.now() > this.#request.deadline) {
        this.#end(startOf(read));
        break;
      }
      this.#mustStand = this.#goesOn();
      if (!this.#mustStand) this.#newestCommit = this.#engine.newestCommit();
      else if (!this.#stands()) break;
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

  /** The point reads from here on that may share a snapshot. */
  #points(): Awaitable<void> {
    const { bytesMax, plan, prefix } = this.#request;
    const keys: Key[] = [];
    /** The read of each key. */
    const indexes: number[] = [];
    let index = this.#readIndex;
    for (; index < plan.reads.length && keys.length < POINTS_AT_ONCE; index++) {
      const read = plan.reads[index]!;
      if (read.kind !== "point") break;
      const key = entityKey(prefix, read.partitionKey, read.rowKey);
      // A key longer than the engine can hold is no entity's.
      if (keyBytes(key) > this.#engine.keyBytesMax) continue;
      keys.push(key);
      indexes.push(index);
    }
    // A full page looks for one entity more, which stands as far away as it may.
    const found = this.#engine.get(keys, Math.max(1, bytesMax - this.#bytesReturned));
    const take = (entries: readonly (Entry | undefined)[]) => {
      this.#takePoints(entries, indexes[entries.length] ?? index);
      // A filter may refuse one group of large entities after the other.
      if (entries.length < keys.length && !this.#ended) {
        return new Promise<void>((resolve) => setImmediate(resolve));
      }
    };
    return found instanceof Promise ? found.then(take) : take(found);
  }

  /** @param next the read behind them */
  #takePoints(entries: readonly (Entry | undefined)[], next: number): void {
    if (!this.#stands()) return;
    for (const entry of entries) {
      if (entry && !this.#visit(entry)) return;
    }
    this.#readIndex = next;
  }

  /**
   * The ranges from here on that one scan reads: one, or those of a partition, and the points between them,
   * where the engine takes several. None where points are better read as such.
   */
  #ranges(): readonly KeyRange[] {
    const { reads } = this.#request.plan;
    const from = this.#readIndex;
    const first = reads[from]!;
    const several = this.#engine.scanRanges ? reads.slice(from, from + RANGES_AT_ONCE) : [first];
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
    if (ended === "stopped" || !this.#stands()) return;
    if (ended === "complete") {
      this.#readIndex += ranges.length;
      return;
    }
    const { resumeAt } = ended;
    // Inside a partition another snapshot must not be mixed into this page, whatever was found in the one
    // before. (An engine that ends between partitions says so by an empty sort part.)
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
   * Whether the next read is of the partition of the last one. What that did not find says as much of the
   * snapshot as what it found: half of a transaction that came since must not follow.
   */
  #goesOn(): boolean {
    const { reads } = this.#request.plan;
    const last = reads[this.#readIndex - 1];
    if (last === undefined) return false;
    const end = last.kind === "point" ? last : last.end;
    if (end === undefined || (last.kind === "range" && end.rowKey === "")) return false;
    return end.partitionKey === startOf(reads[this.#readIndex]!).partitionKey;
  }

  /**
   * Whether what was begun shows the snapshot that it must; ends the page in front of it if not. Asked
   * behind the beginning: a number that stands then says that all between was one snapshot.
   */
  #stands(): boolean {
    if (!this.#mustStand) return true;
    const newest = this.#newestCommit;
    if (newest === undefined || this.#engine.newestCommit() !== newest) {
      this.#end(startOf(this.#request.plan.reads[this.#readIndex]!));
      return false;
    }
    return true;
  }

  #visit(entry: Entry): boolean {
    const { predicate, take } = this.#request;
    const view = this.#view;
    const value = recordOf(entry);
    if (this.#mustStand) {
      if (!this.#stands()) return false;
      this.#mustStand = false;
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
      this.#clock.now() > this.#request.deadline
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
   * Entities that cannot match were examined by the engine alone. They count as read, each on one page:
   * on this one also those behind its last entity, for the next page begins behind them.
   */
  #leftOut(count: number): boolean {
    this.#entitiesRead += count;
    this.#isOverdue = this.#clock.now() > this.#request.deadline;
    return !this.#isOverdue && !this.#isFull();
  }

  #isFull(): boolean {
    const { entitiesMax, bytesMax } = this.#request;
    return this.#entitiesReturned >= entitiesMax || this.#bytesReturned >= bytesMax;
  }

  #end(next: KeyPosition): void {
    this.#next = { partitionKey: next.partitionKey, rowKey: next.rowKey };
    this.#ended = true;
  }
}

/** Whether all that is read is of this partition. */
function isWithin(read: KeyRead, partitionKey: string): boolean {
  const isOfOne = read.class !== "partition range" && read.class !== "table scan";
  return isOfOne && startOf(read).partitionKey === partitionKey;
}

function startOf(read: KeyRead): KeyPosition {
  return read.kind === "point" ? read : read.start;
}
