import type { KeyOf } from "./entities/repository.ts";
import type { EntityOf } from "./entities/transaction.ts";
import {
  contributionsTo,
  explain,
  insertStep,
  latest,
  leadRefused,
  openEntity,
  retryWhileStale,
  Stale,
  timeLeft,
} from "./entities/write.ts";
import { assertSome, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { assertEntityFits, type Row } from "./model/entity-rows.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import { deleteOf } from "./ports/mutation.ts";
import { isRefusal, isRefusalInside, PortError } from "./ports/port-error.ts";
import type { Mutation } from "./ports/tables.ts";
import { mapBounded } from "./store/limit.ts";
import type { Session } from "./store/session.ts";
import {
  assertFits,
  bytesLimit,
  bytesOnWire,
  TRANSACTION_OPERATIONS_MAX,
} from "./store/transaction-size.ts";

export interface BatchOptions {
  /**
   * `atomic`: everything in one transaction, or batch-too-large before anything is sent. `chunked` (default):
   * as many transactions as needed, each on its own.
   */
  readonly mode?: "atomic" | "chunked";
  /**
   * After a chunk failed, or an operation failed before it was sent: `stop` skips the rest of the partition,
   * `continue` goes on, `isolate` (default) repeats the chunk without the operation at fault.
   */
  readonly onError?: "stop" | "continue" | "isolate";
  /** Partitions written in parallel. Default: 16. */
  readonly parallel?: number;
}

export type BatchResult =
  | { readonly ok: true; readonly etag: string | undefined }
  /** `unique-violation` for an insert whose key, or whose value in a sibling index, another entity holds. */
  | { readonly ok: false; readonly error: unknown };

/** Tells the compiler that there are no indexes. */
interface Unindexed {
  readonly indexes: Readonly<Record<string, never>>;
}

/** Collects operations on any number of partitions and tables. Those on one row keep their order. */
export interface BatchPlan {
  /** Inserts the entity and its sibling index entries, in one transaction. */
  insert<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    entity: NoInfer<T>,
  ): void;
  /** Inserts the entity or replaces its whole value; only for entities without indexes or followers. */
  upsert<T, P extends KeyDeclaration, R extends KeyDeclaration>(
    definition: EntityOf<T, P, R, Readonly<Record<never, never>>> & Unindexed,
    entity: NoInfer<T>,
  ): void;
  /** Deletes whatever version is stored; only for entities without indexes or followers. */
  delete<T, P extends KeyDeclaration, R extends KeyDeclaration>(
    definition: EntityOf<T, P, R, Readonly<Record<never, never>>> & Unindexed,
    key: KeyOf<P, R>,
  ): void;
  /** Any mutation of any table, for code that builds its own rows. */
  mutate(table: string, mutation: Mutation): void;
}

/** What must stay together: an entity and the entries that are committed with it. */
interface Planned {
  readonly position: number;
  readonly table: string;
  readonly partitionKey: string;
  /** The mutations to send. They depend on the stored rows, so this is called right before the commit. */
  prepare(): Promise<Prepared>;
}

interface Prepared {
  readonly mutations: readonly Mutation[];
  readonly commitByMs?: number;
  /** The error for a mutation that the service refused. */
  readonly explain?: (failed: Mutation, refusal: PortError) => Promise<Error>;
  readonly committed?: (etag: string | undefined) => Promise<unknown>;
}

type Unit = Planned & Prepared;

const PARTITIONS_AT_ONCE = 16;

/**
 * Writes many entities in few requests: grouped by partition, at most 100 operations and nine tenths of the
 * payload limit in each, partitions in parallel, the chunks of one partition in sequence.
 * @returns one result for each operation, in the order in which they were planned.
 */
export async function batch(
  session: Session,
  plan: (batch: BatchPlan) => void,
  options: BatchOptions = {},
): Promise<BatchResult[]> {
  const { parallel = PARTITIONS_AT_ONCE, onError = "isolate" } = options;
  assertSome("The batch", { parallel });
  const planned = new Plan(session);
  // Here the types of the definitions meet untyped rows; see `openRepository`.
  plan(planned as unknown as BatchPlan);
  const units = await planned.units();
  const results: BatchResult[] = new Array(units.length);
  if (options.mode === "atomic" && units.length > 0) {
    await commitAlone(session, units, results, assertAtomic);
    return results;
  }
  await mapBounded(byPartition(units), parallel, async (group) => {
    const stops = onError === "stop";
    const failed = (units: readonly Planned[]) =>
      units.map(({ position }) => results[position]).find((result) => result?.ok === false);
    for await (const chunk of chunks(group, session, stops, results)) {
      await commitChunk(session, chunk, onError, results);
      if (stops && failed(chunk)) break;
    }
    const left = group.filter(({ position }) => !results[position]);
    if (left.length > 0) fail(left, failed(group)?.error, results);
  });
  return results;
}

function byPartition(units: readonly Planned[]): Planned[][] {
  const partitions = new Map<string, Planned[]>();
  for (const unit of units) {
    const id = `${unit.table}/${unit.partitionKey}`;
    const group = partitions.get(id);
    if (group) group.push(unit);
    else partitions.set(id, [unit]);
  }
  return [...partitions.values()];
}

/**
 * Neither this nor a row begins with a spread, see `queryRun`: 100 inserts took a quarter more of the client's
 * CPU.
 */
async function ready(unit: Planned): Promise<Unit> {
  return Object.assign({}, unit, await unit.prepare());
}

function fail(units: readonly Planned[], error: unknown, results: BatchResult[]): void {
  for (const { position } of units) results[position] = { ok: false, error };
}

/** @throws Stale when what was prepared is too old. */
async function commitTogether(
  session: Session,
  units: readonly Unit[],
  results: BatchResult[],
): Promise<void> {
  const [
    {
      table,
      mutations: [lead],
    },
  ] = units as readonly [Unit];
  const mutations = units.flatMap((unit) => unit.mutations);
  const timeout = timeLeft(session, latest(units), lead!.rowKey);
  const etags = await session.tables.commit(table, mutations, timeout);
  let at = 0;
  for (const { position, mutations, committed } of units) {
    const etag = etags[at];
    results[position] = { ok: true, etag };
    at += mutations.length;
    await committed?.(etag);
  }
}

/** Commits in one transaction, and retries while other writers win the race. */
function commitAlone(
  session: Session,
  planned: readonly Planned[],
  results: BatchResult[],
  check?: (session: Session, units: readonly Unit[]) => void,
): Promise<void> {
  return retryWhileStale(session, {}, async () => {
    const units = await Promise.all(planned.map(ready));
    check?.(session, units);
    try {
      await commitTogether(session, units, results);
    } catch (refusal) {
      throw (await faultIn(units, refusal)).error;
    }
  });
}

function assertAtomic(session: Session, units: readonly Unit[]): void {
  const partitions = byPartition(units).length;
  const mutations = units.flatMap((unit) => unit.mutations);
  if (partitions > 1) {
    const bytes = bytesOnWire(mutations);
    const message = `The batch spans ${partitions} partitions; a transaction has one.`;
    throw tableError("batch-too-large", message, { operations: mutations.length, bytes });
  }
  assertFits(mutations, session);
}

/** Cuts at the limits, and before a second operation on a row, since a transaction allows only one. */
async function* chunks(
  group: readonly Planned[],
  session: Session,
  stops: boolean,
  results: BatchResult[],
): AsyncGenerator<Unit[]> {
  const bytesMax = bytesLimit(session);
  let chunk: Unit[] = [];
  let rows = new Set<string>();
  let bytes = 0;
  for (const planned of group) {
    try {
      let unit = await ready(planned);
      const more = bytesOnWire(unit.mutations);
      const isFull =
        rows.size + unit.mutations.length > TRANSACTION_OPERATIONS_MAX ||
        bytes + more > bytesMax ||
        unit.mutations.some(({ rowKey }) => rows.has(rowKey));
      if (isFull && chunk.length > 0) {
        yield chunk;
        [chunk, rows, bytes] = [[], new Set(), 0];
        // The chunk before may have changed rows that the unit was prepared from.
        unit = await ready(planned);
      }
      chunk.push(unit);
      for (const { rowKey } of unit.mutations) rows.add(rowKey);
      bytes += more;
    } catch (error) {
      fail([planned], error, results);
      if (stops) break;
    }
  }
  if (chunk.length > 0) yield chunk;
}

async function commitChunk(
  session: Session,
  chunk: readonly Unit[],
  onError: "stop" | "continue" | "isolate",
  results: BatchResult[],
): Promise<void> {
  let units = [...chunk];
  const late: Unit[] = [];
  while (units.length > 0) {
    try {
      await commitTogether(session, units, results);
      break;
    } catch (refusal) {
      const { culprit, error } = await faultIn(units, refusal);
      // A lost race is not the operation's fault.
      const isLate = error instanceof Stale;
      if (isLate) late.push(...(culprit ? [culprit] : units));
      else if (culprit && onError === "isolate") fail([culprit], error, results);
      else {
        fail(units, error, results);
        if (onError === "stop") return;
        break;
      }
      units = culprit ? units.filter((unit) => unit !== culprit) : [];
    }
  }
  for (const unit of late) {
    await commitAlone(session, [unit], results).catch((error) => fail([unit], error, results));
  }
}

/** The unit that the service refused, if one operation was at fault, and the error to report. */
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
    const isTold = isRefusal(error, 404, 409, 412);
    const explained = isTold ? culprit.explain?.(failed, error) : undefined;
    // Explaining may take a read. If that fails, the refusal itself is reported.
    return { culprit, error: (await explained?.catch(() => error)) ?? error };
  }
  return { error };
}

class Plan {
  readonly #session: Session;
  readonly #planned: (() => Promise<Omit<Planned, "position">>)[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  insert(definition: AnyEntity, entity: Row): void {
    this.#planned.push(async () => {
      const step = await insertStep(openEntity(this.#session, definition), entity);
      const { lead, open } = step;
      if (open.followers.some(({ reachesOut }) => reachesOut)) {
        const message = "its indexes or followers reach other partitions; insert it on its own";
        throw validationFailed(definition.name, "indexes", message);
      }
      const { table } = definition;
      const { partitionKey } = lead;
      const prepare = async (): Promise<Prepared> => {
        const contributions = await contributionsTo(step);
        const entries = contributions.flatMap(({ mutations }) => mutations ?? []);
        return {
          mutations: [lead, ...entries],
          commitByMs: latest(contributions),
          explain: async (failed, refusal) =>
            failed === lead ? leadRefused(step, refusal) : explain(contributions, failed, refusal),
          committed: (etag) => Promise.all(contributions.map((one) => one.committed?.(etag))),
        };
      };
      return { table, partitionKey, prepare };
    });
  }

  upsert(definition: AnyEntity, entity: Row): void {
    const { rows, table } = definition;
    assertAlone(definition);
    this.#plan(table, async () => {
      await rows.validate(entity);
      const properties = rows.encode(entity, this.#session.writeToken());
      const key = rows.key(entity, this.#session.profile);
      assertEntityFits(key, properties);
      return { kind: "insertOrReplace", ...key, properties };
    });
  }

  delete(definition: AnyEntity, key: Row): void {
    const { rows, table } = definition;
    assertAlone(definition);
    this.mutate(table, deleteOf(rows.key(key, this.#session.profile)));
  }

  mutate(table: string, mutation: Mutation): void {
    this.#plan(table, async () => mutation);
  }

  #plan(table: string, make: () => Promise<Mutation>): void {
    this.#planned.push(async () => {
      const mutation = await make();
      const { partitionKey } = mutation;
      return { table, partitionKey, prepare: async () => ({ mutations: [mutation] }) };
    });
  }

  async units(): Promise<Planned[]> {
    const units = await Promise.all(this.#planned.map((plan) => plan()));
    return units.map((unit, position) => ({ position, ...unit }));
  }
}

/** @throws validation-failed where a blind write would leave entries behind. */
function assertAlone({ name, indexes, followers }: AnyEntity): void {
  if (Object.keys(indexes).length + Object.keys(followers).length === 0) return;
  const message = "its indexes and followers require a read first; use its repository";
  throw validationFailed(name, "indexes", message);
}
