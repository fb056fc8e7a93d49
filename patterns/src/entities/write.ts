import { assertSome, tableError, validationFailed } from "../errors.ts";
import type { KeyValues } from "../keys/key-shape.ts";
import { declaredIndex } from "../model/declared-index.ts";
import {
  assertEntityFits,
  isRequestedRow,
  type Row,
  shortenedValues,
} from "../model/entity-rows.ts";
import type { AnyEntity, Change, Contribution, OpenFollower, Snapshot } from "../model/follower.ts";
import { type EdmValue, isSameValue } from "../ports/edm.ts";
import { deleteOf, keyOf, printKey } from "../ports/mutation.ts";
import { isRefusal, isRefusalInside } from "../ports/port-error.ts";
import type { Deadline, EntityKey, Mutation } from "../ports/tables.ts";
import type { DeclaredIndex, IndexStates, Session } from "../store/session.ts";
import { assertFits } from "../store/transaction-size.ts";
import { tokensOf } from "../store/write-token.ts";

/** An opened entity with its followers. */
export interface OpenEntity {
  readonly session: Session;
  readonly entity: AnyEntity;
  readonly followers: readonly OpenFollower[];
  /** The APIs of its indexes, by name. */
  readonly by: Readonly<Record<string, unknown>>;
}

/** One entity's part in a commit: the mutation of its own row, and the change its followers see. */
export interface Step {
  readonly open: OpenEntity;
  readonly lead: Mutation;
  readonly change: Omit<Change, "shared">;
  /** Inserts a row that was absent when read. If it exists at the commit, the writer lost a race. */
  readonly isUpsert?: boolean;
}

/** The writer lost a race: it must read again and retry. */
export class Stale extends Error {
  readonly rowKey: string;
  /** What to say if it is so again in every attempt. Default: that others won. */
  readonly reason: string | undefined;

  constructor(rowKey: string, cause?: unknown, reason?: string) {
    super(reason ?? `${rowKey} changed since it was read.`, { cause });
    this.rowKey = rowKey;
    this.reason = reason;
  }
}

export function openEntity(session: Session, entity: AnyEntity): OpenEntity {
  const by: Record<string, unknown> = {};
  const followers: OpenFollower[] = [];
  for (const [name, index] of Object.entries(entity.indexes)) {
    const states = session.indexStates;
    const declared = declaredIndex(entity, name);
    const readable = states && (() => assertReadable(states, declared));
    const open = index.follow({ session, entity, name, ...(readable && { readable }) });
    by[name] = open.api;
    followers.push(states && open.keeper ? guarded(states, declared, open) : open);
  }
  for (const [name, follower] of Object.entries(entity.followers)) {
    followers.push(follower.follow({ session, entity, name }));
  }
  return { session, entity, followers, by };
}

/** @throws index-not-readable. */
async function assertReadable(states: IndexStates, declared: DeclaredIndex): Promise<void> {
  const { state } = await states.stateOf(declared);
  if (state.startsWith("readable")) return;
  const index = declared.label;
  const remedy = "build the index first.";
  throw tableError("index-not-readable", `${index} is ${state}.`, { index, state }, { remedy });
}

/** The follower, or one that does nothing while the index is disabled. */
function guarded(states: IndexStates, index: DeclaredIndex, follower: OpenFollower): OpenFollower {
  return {
    ...follower,
    prepare: async (change) => {
      const { state, commitByMs } = await states.stateOf(index);
      if (state === "disabled") return { commitByMs };
      const isPartial = state !== "readable";
      const contribution = await follower.prepare({ ...change, isPartial });
      return { ...contribution, commitByMs: Math.min(latest([contribution]), commitByMs) };
    },
  };
}

export function keyIn({ entity, session }: OpenEntity, values: KeyValues): EntityKey {
  return entity.rows.key(values, session.profile);
}

export async function readEntity(
  open: OpenEntity,
  values: KeyValues,
  read = readAt,
): Promise<Snapshot | undefined> {
  const { rows } = open.entity;
  const found = await read(open, keyIn(open, values));
  return found && isRequestedRow(found.row, shortenedValues(rows, rows, values))
    ? found
    : undefined;
}

/** Undefined when there is no row, or a row of another definition. */
export async function readAt(
  { session, entity }: Pick<OpenEntity, "session" | "entity">,
  key: EntityKey,
): Promise<Snapshot | undefined> {
  const stored = await session.tables.get(entity.table, keyOf(key));
  const row = stored && entity.rows.decode(stored);
  return row && { row, stored };
}

/** @throws not-found. */
export async function mustRead(
  open: OpenEntity,
  values: KeyValues,
  read = readEntity,
): Promise<Snapshot> {
  const found = await read(open, values);
  if (found) return found;
  const { name, table } = open.entity;
  const key = keyIn(open, values);
  throw tableError("not-found", `There is no ${name} ${printKey(key)} in ${table}.`, {
    table,
    key: key.rowKey,
  });
}

export async function insertStep(open: OpenEntity, row: Row): Promise<Step> {
  const { rows } = open.entity;
  await rows.validate(row);
  const { key, token } = begin(open, row);
  const properties = rows.encode(row, token);
  assertEntityFits(key, properties);
  return {
    open,
    lead: { kind: "insert", ...key, properties },
    change: { key, token, after: row },
  };
}

/**
 * Writes `row` over the entity read as `before`: as a merge of the changed properties, or as a replace when a
 * property must be removed. An `update` keeps properties that this definition does not know; a `replace`
 * removes them.
 */
export async function updateStep(
  open: OpenEntity,
  before: Snapshot,
  row: Row,
  mode: "update" | "replace",
): Promise<Step> {
  const { rows } = open.entity;
  await rows.validate(row);
  const { key, token } = begin(open, row);
  const { stored } = before;
  if (stored.partitionKey !== key.partitionKey || stored.rowKey !== key.rowKey) {
    throw validationFailed(
      stored.rowKey,
      "key",
      "a key cannot change; insert under the new key and delete the old entity",
    );
  }
  // Keeps the row's newer version as well: otherwise the newer program would apply its upgrades to properties
  // that it has already upgraded.
  const unknown = mode === "update" ? rows.unknownIn(stored.properties) : undefined;
  const encoded = {
    ...unknown?.properties,
    ...rows.encode(row, token, tokensOf(stored.properties), unknown),
  };
  const properties: Record<string, EdmValue> = {};
  const changes: Record<string, EdmValue> = {};
  for (const [name, value] of Object.entries(encoded)) {
    const old = stored.properties[name];
    // An equal value keeps its stored spelling.
    if (old?.type === value.type && isSameValue(old, value)) properties[name] = old;
    else properties[name] = changes[name] = value;
  }
  assertEntityFits(key, properties);
  const removes = Object.keys(stored.properties).some((name) => !(name in properties));
  if (removes && rows.isNewer(stored.properties)) {
    throw validationFailed(key.rowKey, "version", NEWER_VERSION_MESSAGE);
  }
  return {
    open,
    lead: {
      ifMatch: stored.etag,
      ...key,
      ...(removes ? { kind: "replace", properties } : { kind: "merge", properties: changes }),
    },
    change: { key, token, before, after: row, unknown },
  };
}

export function deleteStep(open: OpenEntity, before: Snapshot): Step {
  const { stored } = before;
  const token = open.session.writeToken();
  return {
    open,
    lead: deleteOf(stored, stored.etag),
    change: { key: keyOf(stored), token, before },
  };
}

/** Why an older program may not remove properties. */
export const NEWER_VERSION_MESSAGE =
  "a newer version of the entity may have fields that this would remove";

/** Makes `row` the whole value, whatever is stored now. */
export async function upsertOver(
  open: OpenEntity,
  before: Snapshot | undefined,
  row: Row,
): Promise<Step> {
  if (before) return updateStep(open, before, row, "replace");
  return { isUpsert: true, ...(await insertStep(open, row)) };
}

/** A copy that the caller may modify. The snapshot itself must still show where the old entries are. */
export function copyOf({ entity }: OpenEntity, { stored }: Snapshot): Row {
  return entity.rows.decode(stored)!;
}

/** Undefined when `change` returns nothing. */
export async function changeStep(
  open: OpenEntity,
  before: Snapshot,
  change: (current: Row) => Row | undefined,
): Promise<Step | undefined> {
  const changes = change(copyOf(open, before));
  if (changes instanceof Promise) {
    const message = "it returned a promise; await before the update, as it may run again";
    throw validationFailed("The update", "change", message);
  }
  return changes && updateStep(open, before, { ...before.row, ...changes }, "update");
}

const MISSING_DELETES_MAX = 3;

/**
 * Commits the steps and everything their followers contribute, in one request.
 * @returns the new ETag of each step's entity.
 * @throws Stale when an entity has changed since it was read; the followers' own errors; batch-too-large.
 */
export async function commitSteps(steps: readonly Step[]): Promise<(string | undefined)[]> {
  const { session, entity } = steps[0]!.open;
  const contributions = await Promise.all(steps.map(contributionsTo));
  const prepared = contributions.flat();
  let mutations = [
    ...steps.map(({ lead }) => lead),
    ...prepared.flatMap((contribution) => contribution.mutations ?? []),
  ];
  assertFits(mutations, session);
  const commitByMs = latest(prepared);
  for (let dropped = 0; ; dropped++) {
    const timeout = timeLeft(session, commitByMs, mutations[0]!.rowKey);
    try {
      const etags = await session.tables.commit(entity.table, mutations, timeout);
      await Promise.all(
        contributions.flatMap((of, step) => of.map(({ committed }) => committed?.(etags[step]))),
      );
      return etags.slice(0, steps.length);
    } catch (error) {
      const failed = isRefusalInside(error, 404, 409, 412) && mutations[error.index];
      if (!failed) throw error;
      const isLead = error.index < steps.length;
      // A delete with an ETag is of a row that was read. If that row is gone, whatever was read with it may be
      // stale.
      const isDone = failed.kind === "delete" && failed.ifMatch === "*" && error.status === 404;
      if (isLead || !isDone) {
        throw isLead
          ? leadRefused(steps[error.index]!, error)
          : await explain(prepared, failed, error);
      }
      // Another client has already deleted the row.
      if (dropped === MISSING_DELETES_MAX) throw new Stale(failed.rowKey, error);
      mutations = mutations.filter((mutation) => mutation !== failed);
    }
  }
}

/** What the followers contribute to the step. */
export function contributionsTo({ open, change }: Step): Promise<Contribution[]> {
  const whole = Object.assign({ shared: new Map() }, change);
  return Promise.all(open.followers.map(async (follower) => follower.prepare(whole)));
}

/** The time by which all of them must be committed. */
export function latest(all: readonly Pick<Contribution, "commitByMs">[]): number {
  return Math.min(...all.map(({ commitByMs = Number.POSITIVE_INFINITY }) => commitByMs));
}

/**
 * The deadline of a commit: nothing sends or retries it after `byMs`, and the service refuses a request that is
 * delayed beyond it.
 * @throws Stale when no time is left.
 */
export function timeLeft({ clock }: Session, byMs: number, rowKey: string): Deadline | undefined {
  if (byMs === Number.POSITIVE_INFINITY) return undefined;
  if (byMs < clock.now()) throw new Stale(rowKey);
  return { sendByMs: byMs };
}

/** The same step with one more contribution to its transaction. */
export function withContribution(step: Step, contribution: Contribution): Step {
  const follower = { prepare: () => contribution };
  return { ...step, open: { ...step.open, followers: [...step.open.followers, follower] } };
}

/** The error for a step whose own mutation the service refused. */
export function leadRefused({ open, lead, isUpsert }: Step, cause: Error): Error {
  // An insert requires no entity, so the 404 is for something else: the table.
  if (lead.kind === "insert" && isRefusal(cause, 404)) return cause;
  if (lead.kind !== "insert" || isUpsert) return new Stale(lead.rowKey, cause);
  return tableError(
    "unique-violation",
    `${open.entity.name} ${printKey(lead)} already exists.`,
    { index: "key", key: lead.rowKey, owner: keyOf(lead) },
    { remedy: "use update or upsert.", cause },
  );
}

/** The error for a refused mutation that a follower contributed. */
export async function explain(
  contributions: readonly Contribution[],
  failed: Mutation,
  refusal: Error,
): Promise<Error> {
  const author = contributions.find(({ mutations }) => mutations?.includes(failed));
  const explanation = await author?.explain?.(failed);
  if (explanation === "retry") return new Stale(failed.rowKey, refusal);
  if (explanation) explanation.cause ??= refusal;
  return explanation ?? refusal;
}

function begin(open: OpenEntity, row: Row): { key: EntityKey; token: string } {
  return { key: keyIn(open, row), token: open.session.writeToken() };
}

const BACKOFF_MIN_MS = 10;
const BACKOFF_MAX_MS = 200;
const ATTEMPTS = 8;

export interface WriteOptions {
  /** Attempts while other writers win the race, the first included. Default: 8. */
  readonly attempts?: number;
}

/** Repeats `attempt` while it loses races. @throws contention-exhausted after the last attempt. */
export async function retryWhileStale<Result>(
  { clock, random }: Session,
  { attempts = ATTEMPTS }: WriteOptions,
  attempt: () => Promise<Result>,
): Promise<Result> {
  assertSome("The write", { attempts });
  for (let count = 1; ; count++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Stale)) throw error;
      if (count >= attempts) {
        const message =
          error.reason ??
          `Each of ${count} attempts to write ${error.rowKey} lost a race or ran out of time.`;
        throw tableError(
          "contention-exhausted",
          message,
          { key: error.rowKey, attempts: count },
          {
            cause: error,
            ...(error.reason && { remedy: "try again then, or choose another value." }),
          },
        );
      }
      await clock.sleep(BACKOFF_MIN_MS + (BACKOFF_MAX_MS - BACKOFF_MIN_MS) * random());
    }
  }
}
