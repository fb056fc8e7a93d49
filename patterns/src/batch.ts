import type { Database } from "./database.ts";
import { tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { AnyEntity } from "./model/entity.ts";
import type { Indexes } from "./model/entity-index.ts";
import type { Row } from "./model/entity-rows.ts";
import { deleteOf } from "./ports/mutation.ts";
import { isRefusalInside, PortError } from "./ports/port-error.ts";
import type { Mutation } from "./ports/tables.ts";
import type { KeyOf } from "./repository.ts";
import { mapBounded } from "./store/limit.ts";
import type { EntityOf } from "./transaction.ts";
import {
  assertFits,
  bytesLimit,
  bytesOnWire,
  explain,
  insertStep,
  leadRefused,
  openEntity,
  Stale,
  TRANSACTION_OPERATIONS_MAX,
} from "./write.ts";

export interface BatchOptions {
  /**
   * `atomic`: everything in one transaction, or batch-too-large before anything is sent. `chunked`
   * (default): as many transactions as it takes, each for itself.
   */
  readonly mode?: "atomic" | "chunked";
  /**
   * After a chunk failed: `stop` leaves out the rest of its partition, `continue` goes on, `isolate`
   * (default) repeats the chunk without the operation at fault.
   */
  readonly onError?: "stop" | "continue" | "isolate";
  /** Partitions written at once. Default: 16. */
  readonly parallel?: number;
}

export type BatchResult =
  | { readonly ok: true; readonly etag: string | undefined }
  /** `unique-violation` for an insert whose key, or value in a sibling index, another entity has. */
  | { readonly ok: false; readonly error: unknown };

/** Says so to the compiler. */
interface Unindexed {
  readonly indexes: Readonly<Record<string, never>>;
}

/** Collects operations on any number of partitions and tables. Those on one row keep their order. */
export interface BatchPlan {
  /** With its sibling index entries, in one transaction. */
  insert<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    entity: NoInfer<T>,
  ): void;
  /** The whole value, whether the entity exists or not; only where there are no indexes to follow. */
  upsert<T, P extends KeyDeclaration, R extends KeyDeclaration>(
    definition: EntityOf<T, P, R, Readonly<Record<never, never>>> & Unindexed,
    entity: NoInfer<T>,
  ): void;
  /** Whatever is there; only where there are no indexes to follow. */
  delete<T, P extends KeyDeclaration, R extends KeyDeclaration>(
    definition: EntityOf<T, P, R, Readonly<Record<never, never>>> & Unindexed,
    key: KeyOf<P, R>,
  ): void;
  /** Any mutation of any table, for code that builds its own rows. */
  mutate(table: string, mutation: Mutation): void;
}

/** What must stay together: an entity and the entries that are committed with it. */
interface Unit {
  readonly position: number;
  readonly table: string;
  readonly mutations: readonly Mutation[];
  /** What it means that the service refused one of them. */
  readonly explain?: (failed: Mutation, refusal: PortError) => Promise<Error>;
}

const PARTITIONS_AT_ONCE = 16;

/**
 * Writes many entities in few requests: grouped by partition, at most 100 operations and nine tenths of
 * the payload limit each, partitions side by side, the chunks of one partition in sequence.
 * @returns one result for each operation, in the order they were planned.
 */
export async function batch(
  database: Database,
  plan: (batch: BatchPlan) => void,
  options: BatchOptions = {},
): Promise<BatchResult[]> {
  const planned = new Plan(database);
  // The one place where the types of the definitions meet the untyped rows; see `openRepository`.
  plan(planned as unknown as BatchPlan);
  const units = await planned.units();
  if (options.mode !== "atomic" || units.length === 0) return commitUnits(database, units, options);
  assertAtomic(database, units);
  const results: BatchResult[] = [];
  try {
    await commitTogether(database, units, results);
  } catch (refusal) {
    throw (await faultIn(units, refusal)).error;
  }
  return results;
}

async function commitUnits(
  database: Database,
  units: readonly Unit[],
  options: BatchOptions,
): Promise<BatchResult[]> {
  const { parallel = PARTITIONS_AT_ONCE, onError = "isolate" } = options;
  const results: BatchResult[] = new Array(units.length);
  await mapBounded(byPartition(units), parallel, async (group) => {
    let stopped: unknown;
    for (const chunk of chunks(group, database)) {
      if (stopped === undefined) stopped = await commitChunk(database, chunk, onError, results);
      else for (const { position } of chunk) results[position] = { ok: false, error: stopped };
    }
  });
  return results;
}

function byPartition(units: readonly Unit[]): Unit[][] {
  const partitions = new Map<string, Unit[]>();
  for (const unit of units) {
    const id = `${unit.table}/${unit.mutations[0]!.partitionKey}`;
    const group = partitions.get(id);
    if (group) group.push(unit);
    else partitions.set(id, [unit]);
  }
  return [...partitions.values()];
}

async function commitTogether(
  database: Database,
  units: readonly Unit[],
  results: BatchResult[],
): Promise<void> {
  const mutations = units.flatMap((unit) => unit.mutations);
  const etags = await database.tables.commit(units[0]!.table, mutations);
  let at = 0;
  for (const { position, mutations } of units) {
    results[position] = { ok: true, etag: etags[at] };
    at += mutations.length;
  }
}

function assertAtomic(database: Database, units: readonly Unit[]): void {
  const partitions = byPartition(units).length;
  const mutations = units.flatMap((unit) => unit.mutations);
  if (partitions > 1) {
    const bytes = bytesOnWire(mutations);
    const message = `The batch touches ${partitions} partitions; a transaction has one.`;
    throw tableError("batch-too-large", message, { operations: mutations.length, bytes });
  }
  assertFits(mutations, database);
}

/** Cuts at the limits, and before the second operation on a row: a transaction holds one of each. */
function* chunks(units: readonly Unit[], database: Database): Generator<Unit[]> {
  const bytesMax = bytesLimit(database);
  let chunk: Unit[] = [];
  let rows = new Set<string>();
  let bytes = 0;
  for (const unit of units) {
    const more = bytesOnWire(unit.mutations);
    const isFull =
      rows.size + unit.mutations.length > TRANSACTION_OPERATIONS_MAX ||
      bytes + more > bytesMax ||
      unit.mutations.some(({ rowKey }) => rows.has(rowKey));
    if (isFull && chunk.length > 0) {
      yield chunk;
      [chunk, rows, bytes] = [[], new Set(), 0];
    }
    chunk.push(unit);
    for (const { rowKey } of unit.mutations) rows.add(rowKey);
    bytes += more;
  }
  if (chunk.length > 0) yield chunk;
}

/** @returns the error to stop the partition with, if it is to stop. */
async function commitChunk(
  database: Database,
  chunk: readonly Unit[],
  onError: "stop" | "continue" | "isolate",
  results: BatchResult[],
): Promise<unknown> {
  let units = [...chunk];
  while (units.length > 0) {
    try {
      await commitTogether(database, units, results);
      return undefined;
    } catch (refusal) {
      const { culprit, error } = await faultIn(units, refusal);
      if (culprit === undefined || onError !== "isolate") {
        for (const { position } of units) results[position] = { ok: false, error };
        return onError === "stop" ? error : undefined;
      }
      results[culprit.position] = { ok: false, error };
      units = units.filter((unit) => unit !== culprit);
    }
  }
  return undefined;
}

/** The unit the service refused, none when it was not one operation's fault, and what is to be told of it. */
async function faultIn(
  units: readonly Unit[],
  error: unknown,
): Promise<{ readonly culprit?: Unit; readonly error: unknown }> {
  if (!(error instanceof PortError) || !isRefusalInside(error, error.status)) return { error };
  if (error.status < 400 || error.status >= 500) return { error };
  let at = error.index;
  for (const culprit of units) {
    const failed = culprit.mutations[at];
    at -= culprit.mutations.length;
    if (!failed) continue;
    const explained = isRefusalInside(error, 409) ? culprit.explain?.(failed, error) : undefined;
    // To explain it may take a read: if that fails, the refusal is what there is to tell.
    return { culprit, error: (await explained?.catch(() => error)) ?? error };
  }
  return { error };
}

class Plan {
  readonly #database: Database;
  readonly #planned: (() => Promise<Omit<Unit, "position">>)[] = [];

  constructor(database: Database) {
    this.#database = database;
  }

  insert(definition: AnyEntity, entity: Row): void {
    this.#planned.push(async () => {
      const step = await insertStep(openEntity(this.#database, definition), entity);
      const { lead, change, open } = step;
      if (open.followers.some(({ reachesOut }) => reachesOut)) {
        const message = "what follows from it lies outside its partition; insert it by itself";
        throw validationFailed(definition.name, "indexes", message);
      }
      const contributions = await Promise.all(
        open.followers.map((follower) => follower.prepare(change)),
      );
      const entries = contributions.flatMap(({ mutations }) => mutations ?? []);
      return {
        table: definition.table,
        mutations: [lead, ...entries],
        async explain(failed, refusal) {
          if (failed === lead) return leadRefused(step, refusal);
          const error = await explain(contributions, failed, refusal);
          // Whoever was in the way is gone: all there is to tell is that.
          return error instanceof Stale ? refusal : error;
        },
      };
    });
  }

  upsert(definition: AnyEntity, entity: Row): void {
    const { rows, table } = definition;
    assertAlone(definition);
    this.#planned.push(async () => {
      await rows.validate(entity);
      const properties = rows.encode(entity, this.#database.writeToken());
      const key = rows.key(entity, this.#database.profile);
      return { table, mutations: [{ kind: "insertOrReplace", ...key, properties }] };
    });
  }

  delete(definition: AnyEntity, key: Row): void {
    const { rows, table } = definition;
    assertAlone(definition);
    this.mutate(table, deleteOf(rows.key(key, this.#database.profile)));
  }

  mutate(table: string, mutation: Mutation): void {
    this.#planned.push(async () => ({ table, mutations: [mutation] }));
  }

  async units(): Promise<Unit[]> {
    const units = await Promise.all(this.#planned.map((plan) => plan()));
    return units.map((unit, position) => ({ ...unit, position }));
  }
}

/** @throws validation-failed where a blind write would leave entries behind. */
function assertAlone({ name, indexes, followers }: AnyEntity): void {
  if (Object.keys(indexes).length + Object.keys(followers).length === 0) return;
  const message = "what follows from it cannot be told without reading it; use its repository";
  throw validationFailed(name, "indexes", message);
}
