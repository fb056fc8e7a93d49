import { assertSome, isTableError, validationFailed } from "../errors.ts";
import { within } from "../keys/key-range.ts";
import { padded } from "../keys/number.ts";
import { and, bound } from "../ports/filter.ts";
import { deleteOf, keyOf } from "../ports/mutation.ts";
import { unlessRefused } from "../ports/port-error.ts";
import type { EntityKey } from "../ports/tables.ts";
import { pagesOf } from "../query/pages.ts";
import { type JsonRow, jsonRow, type Known, knownIn, writeJson } from "../store/json-row.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "../store/limit.ts";
import {
  BUILD_ENTITIES_PER_SECOND,
  buildRange,
  Pace,
  recordedOf,
  repairExisting,
} from "./build-range.ts";
import {
  assertFree,
  type BuildProgress,
  CONTROL_TABLE,
  type Control,
  createIndexTables,
  isOwnershipEnding,
  type KnownControl,
  type ManagedIndex,
  managedIndex,
  NOTHING_BUILT,
  OWNER_MS,
  PROPAGATION_MS,
  permittedUntil,
  readToBuild,
  stateRefused,
  withDeadline,
} from "./control.ts";

export interface BuildOptions {
  /**
   * The number of partition ranges that the collection is cut into, if it has as many partitions; at most
   * 1,000. Default: 1. The process that begins the build decides.
   */
  readonly shards?: number;
  /** Shards that this process works on in parallel. Default: 4. */
  readonly parallel?: number;
  /** Entities per second of this process, at most; fewer while the service pushes back. Default: 200. */
  readonly rate?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

/** The progress of all processes, as far as this one knows. */
export interface Progress {
  /** Entities. */
  readonly done: number;
  readonly shards: number;
  readonly shardsDone: number;
}

/** A range of partitions. */
interface Shard {
  /** The first partition key. Default: from the beginning. */
  readonly from?: string | undefined;
  /** The first partition key after the range. Default: to the end. */
  readonly to?: string | undefined;
  readonly progress: BuildProgress;
  readonly isDone?: true;
  /** Until when the shard belongs to the process that wrote it last. */
  readonly ownedUntilMs?: number;
}

/** A place to cut the table. */
interface Mark {
  readonly partitionKey: string;
  /** Entities before it. */
  readonly before: number;
}

/** A shard as it was last read or written. */
interface KnownShard {
  readonly key: EntityKey;
  known: Known<Shard>;
}

const SHARDS_MAX = 1000;
const PARALLEL_SHARDS = 4;
const PARTITION = "shards";
const PROPERTY = "shard";
/** How often to check whether other processes are done. */
const POLL_MS = 5000;
/** Candidates for a cut that are kept for each shard. */
const MARKS_PER_SHARD_MAX = 64;

/**
 * A build of an index. Every process that runs one works on the same build until it is complete, each on shards of
 * its own. Each may stop or crash at any time: after a minute another takes over its shards from the last recorded
 * page.
 */
export class IndexBuild {
  /** Stops the shards that this process works on when one of them fails. */
  readonly #failed = new AbortController();
  readonly #index: ManagedIndex;
  readonly #shardsMax: number;
  readonly #parallel: number;
  readonly #onProgress: BuildOptions["onProgress"];
  readonly #prefix: string;
  readonly #pace: Pace;
  #shards: readonly KnownShard[] = [];
  #hasBegun = false;

  constructor(
    { session, entity, name }: ManagedIndex,
    {
      shards = 1,
      parallel = PARALLEL_SHARDS,
      rate = BUILD_ENTITIES_PER_SECOND,
      signal,
      onProgress,
    }: BuildOptions,
  ) {
    this.#index = managedIndex(session.until(signal).until(this.#failed.signal), entity, name);
    this.#prefix = `${this.#index.control.key}!`;
    this.#pace = new Pace(session.clock, rate);
    assertSome("The build", { shards, parallel }, validationFailed, SHARDS_MAX);
    this.#shardsMax = shards;
    this.#parallel = parallel;
    this.#onProgress = onProgress;
  }

  /** @throws validation-failed when the index is in no state to be built. */
  async run(): Promise<BuildProgress> {
    for (;;) {
      try {
        const whole = await this.#goOn();
        if (whole) return whole;
      } catch (error) {
        // Another process changed the state of the index.
        if (!isTableError(error, "conflict")) throw error;
      }
    }
  }

  /** Does the next step. @returns everything that was built, once nothing is left to do. */
  async #goOn(): Promise<BuildProgress | undefined> {
    const { clock } = this.#index.session;
    const { control, row } = await readToBuild(this.#index.control);
    const { state, build, shards } = control;
    // Retired while this process was building it.
    if (state === "disabled" && this.#hasBegun) {
      throw stateRefused(this.#index.control, state, "built");
    }
    this.#hasBegun ||= state === "writeonly";
    if (state.startsWith("readable") && build) {
      if (shards) {
        await this.#drop(shards.plan);
        await this.#index.control.write({ state, build }, row);
      }
      return build;
    }
    if (shards?.count === undefined) {
      await this.#prepare(control, row);
      return undefined;
    }
    await this.#read(shards.plan);
    const open = this.#shards.filter(({ known }) => !known.value.isDone);
    if (open.length === 0 && this.#shards.length === shards.count) {
      const whole = this.#progress();
      const next = whole.duplicates.length > 0 ? "readable-dups" : "readable";
      await this.#index.control.write({ state: next, build: whole, shards }, row);
      return undefined;
    }
    const free = open.filter(({ known }) => (known.value.ownedUntilMs ?? 0) <= clock.now());
    await mapBounded(free, this.#parallel, (shard) => this.#work(shard));
    // Other processes work on them, or have finished and are deleting them.
    if (free.length === 0) await clock.sleep(POLL_MS);
    return undefined;
  }

  /** Moves a `disabled` index on until there are shards to work on, or until another process has done so. */
  async #prepare(control: Control, row: KnownControl["row"]): Promise<void> {
    const { clock } = this.#index.session;
    const { state, shards, ownedUntilMs = 0 } = control;
    if (state !== "disabled" && state !== "writeonly")
      throw stateRefused(this.#index.control, state, "built");
    if (shards && ownedUntilMs > clock.now()) return clock.sleep(POLL_MS);
    assertFree(this.#index, control);
    const plan = this.#index.session.writeToken();
    let known = row;
    let keptAtMs = 0;
    const keep = async () => {
      keptAtMs = clock.now();
      const until = { owner: plan, ownedUntilMs: keptAtMs + OWNER_MS };
      known = await this.#index.control.write(
        { state: "writeonly", shards: { plan }, ...until },
        known,
      );
      this.#hasBegun = true;
    };
    // That there is no table with entities is said at once, not after the wait below.
    const { session, entity } = this.#index;
    await session.tables.get(entity.table, { partitionKey: "", rowKey: "" });
    await createIndexTables(this.#index);
    await keep();
    // A writer that does not know the new state would write rows without entries.
    await clock.sleep(PROPAGATION_MS);
    await keep();
    const confirm = async () => {
      if (clock.now() - keptAtMs >= OWNER_MS / 2) await keep();
    };
    await repairExisting(this.#withDeadline(confirm), this.#pace, keep);
    const cuts = await this.#cuts(confirm);
    const bounds = [undefined, ...cuts, undefined];
    const count = bounds.length - 1;
    await mapBounded(bounds.slice(1), LOOKUPS_AT_ONCE, (to, i) => {
      const shard = { from: bounds[i], to, progress: NOTHING_BUILT };
      return writeJson(this.#rowOf(this.#keyOf(plan, i)), shard, undefined);
    });
    await this.#index.control.write({ state: "writeonly", shards: { plan, count } }, known);
  }

  /** Partition keys that cut the entities into about equal parts. Scans their keys. */
  async #cuts(keep: () => Promise<void>): Promise<string[]> {
    const shards = this.#shardsMax;
    if (shards === 1) return [];
    const { table, rows } = this.#index.entity;
    let marks: Mark[] = [];
    let stride = 1;
    let count = 0;
    let last: string | undefined;
    const all = { rows: within(rows.row.prefix) };
    for await (const { entities } of pagesOf(this.#index.session, table, all, [
      rows.typeProperty,
    ])) {
      for (const { partitionKey, properties } of entities) {
        if (rows.versionOf(properties) === undefined) continue;
        const isBeginning = partitionKey !== last && last !== undefined;
        if (isBeginning && count >= (marks.at(-1)?.before ?? 0) + stride) {
          marks.push({ partitionKey, before: count });
        }
        last = partitionKey;
        count++;
      }
      if (marks.length > MARKS_PER_SHARD_MAX * shards) {
        marks = marks.filter((_mark, i) => i % 2 === 1);
        stride *= 2;
      }
      await keep();
    }
    const cuts = new Set<string>();
    for (let i = 1; i < shards && marks.length > 0; i++) {
      const off = ({ before }: Mark) => Math.abs(before - (i * count) / shards);
      cuts.add(marks.reduce((best, mark) => (off(mark) < off(best) ? mark : best)).partitionKey);
    }
    // Not every endpoint returns rows in key order.
    return [...cuts].sort();
  }

  /** Works on a shard, unless another process has it or takes it over. */
  async #work(shard: KnownShard): Promise<void> {
    const { clock } = this.#index.session;
    const save = async (change: Partial<Shard>) => {
      const ownedUntilMs = clock.now() + OWNER_MS;
      const next = { ...shard.known.value, ownedUntilMs, ...change };
      const written = await writeJson(this.#rowOf(shard.key), next, shard.known);
      if (!written) throw new TakenOver();
      shard.known = written;
      if (change.progress || change.isDone) this.#report();
    };
    const confirm = async () => {
      if (isOwnershipEnding(clock, shard.known.value.ownedUntilMs)) await save({});
    };
    try {
      await save({});
      const { from, to, progress } = shard.known.value;
      await buildRange(
        {
          index: this.#withDeadline(confirm),
          filter: and(bound("PartitionKey", "ge", from), bound("PartitionKey", "lt", to)),
          pace: this.#pace,
          save: (progress) => save({ progress }),
        },
        progress,
      );
      await save({ isDone: true });
    } catch (error) {
      if (error instanceof TakenOver) return;
      this.#failed.abort(error);
      throw error;
    }
  }

  /** The index, whose entries are written until it is retired. */
  #withDeadline(confirm: () => Promise<void>): ManagedIndex {
    return withDeadline(this.#index, permittedUntil(this.#index, "built", confirm));
  }

  async #read(plan: string): Promise<void> {
    const found: KnownShard[] = [];
    const rows = within(`${this.#prefix}${plan}!`);
    const range = { partitionKey: PARTITION, rows };
    for await (const { entities } of pagesOf(this.#index.session, CONTROL_TABLE, range)) {
      for (const stored of entities)
        found.push({ key: keyOf(stored), known: knownIn(stored, PROPERTY) });
    }
    this.#shards = found;
  }

  /** Deletes these shards, and those left from earlier builds. */
  async #drop(plan: string): Promise<void> {
    const rows = { ...within(`${this.#prefix}${plan}!`), from: this.#prefix };
    const range = { partitionKey: PARTITION, rows };
    for await (const { entities } of pagesOf(this.#index.session, CONTROL_TABLE, range)) {
      await mapBounded(entities, LOOKUPS_AT_ONCE, (row) =>
        unlessRefused(this.#index.session.tables.commit(CONTROL_TABLE, [deleteOf(row)]), 404),
      );
    }
  }

  #report(): void {
    const shards = this.#shards.length;
    const shardsDone = this.#shards.filter(({ known }) => known.value.isDone).length;
    this.#onProgress?.({ done: this.#progress().done, shards, shardsDone });
  }

  /** The progress of all shards together. */
  #progress(): BuildProgress {
    const all = this.#shards.map(({ known }) => known.value.progress);
    const sum = (of: "done" | "written" | "errors") =>
      all.reduce((total, progress) => total + progress[of], 0);
    const duplicates = recordedOf(all.flatMap((progress) => progress.duplicates));
    return { done: sum("done"), written: sum("written"), errors: sum("errors"), duplicates };
  }

  #keyOf(plan: string, i: number): EntityKey {
    return { partitionKey: PARTITION, rowKey: `${this.#prefix}${plan}!${padded(i, 4)}` };
  }

  #rowOf(key: EntityKey): JsonRow<Shard> {
    return jsonRow(this.#index.session, CONTROL_TABLE, key, PROPERTY);
  }
}

/** Another process works on the shard. */
class TakenOver extends Error {}
