import { validationFailed } from "../errors.ts";
import type { KeyDeclaration } from "../keys/key.ts";
import type { Row } from "../model/entity-rows.ts";
import type { AnyEntity, Indexes } from "../model/follower.ts";
import type { Openable } from "../model/openable.ts";
import { printKey } from "../ports/mutation.ts";
import type { Saved } from "../query/query.ts";
import type { Session } from "../store/session.ts";
import type { Changes, KeyOf, Repository } from "./repository.ts";
import {
  changeStep,
  commitSteps,
  copyOf,
  deleteStep,
  insertStep,
  mustRead,
  type OpenEntity,
  openEntity,
  readAt,
  readEntity,
  retryWhileStale,
  type Step,
  upsertOver,
  type WriteOptions,
} from "./write.ts";

/** A definition whose repository has these types. */
export type EntityOf<
  T,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
> = AnyEntity & Openable<Repository<T, P, R, I>>;

/**
 * Changes to entities of one partition that are committed together, with their sibling index entries. Reads are
 * sent immediately; writes wait for the end. If another writer changes one of the written entities in between,
 * the work runs again from the start, so its only side effects must be calls on this transaction. An entity
 * that is read but not written may change in the meantime.
 */
export interface Transaction {
  /** The entity as stored; planned writes do not show. 1 R for each entity, however often it is read. */
  get<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    key: KeyOf<P, R>,
  ): Promise<Saved<T> | undefined>;
  /** As in a repository. An existing entity fails the whole transaction (`unique-violation`). */
  insert<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    entity: NoInfer<T>,
  ): void;
  /**
   * As in a repository. (`NoInfer` wraps all of `change`: otherwise a member of `f.oneOf` in it becomes any
   * string.)
   */
  update<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    key: KeyOf<P, R>,
    change: NoInfer<(current: Saved<T>) => Changes<T> | undefined>,
  ): void;
  /** Inserts the entity or replaces its whole value. */
  upsert<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    entity: NoInfer<T>,
  ): void;
  /** Does nothing when the entity does not exist. */
  delete<T, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityOf<T, P, R, I>,
    key: KeyOf<P, R>,
  ): void;
}

/** See `Database.tx`. */
export function runTransaction<Result>(
  session: Session,
  partition: Row,
  work: (transaction: Transaction) => Result | Promise<Result>,
  options: WriteOptions = {},
): Promise<Result> {
  return retryWhileStale(session, options, async () => {
    const planned: PlannedStep[] = [];
    // Here the types of the definitions meet untyped rows; see `openRepository`.
    const result = await work(planningIn(session, partition, planned) as unknown as Transaction);
    const steps = await Promise.all(planned.map((step) => step()));
    const changes = steps.filter((step) => step !== undefined);
    if (changes.length > 0) await commitSteps(changes);
    return result;
  });
}

type PlannedStep = () => Promise<Step | undefined>;

/** A transaction that adds its writes to `planned`. Its functions may be destructured. */
function planningIn(session: Session, partition: Row, planned: PlannedStep[]) {
  const found = new Map<string, ReturnType<typeof readAt>>();
  let table: string | undefined;

  /** @throws validation-failed for another table or partition: a transaction has one of each. */
  const open = (definition: AnyEntity, values: Row): OpenEntity => {
    const { table: own, rows } = definition;
    const partitionKey = rows.partition.encode(values);
    table ??= own;
    if (table !== own || partitionKey !== rows.partition.encode(partition)) {
      throw validationFailed(
        "The transaction",
        `${own}, partition "${partitionKey}"`,
        "a transaction has one table and one partition",
      );
    }
    return openEntity(session, definition);
  };
  /**
   * Reads each entity once. Every write is computed from that read, and commits only if the row has not changed
   * since.
   */
  const readOnce: typeof readAt = (opened, key) => {
    const id = `${opened.entity.name} ${printKey(key)}`;
    const known = found.get(id) ?? readAt(opened, key);
    found.set(id, known);
    return known;
  };
  const read = (opened: OpenEntity, values: Row) => readEntity(opened, values, readOnce);
  const plan =
    <Rest extends unknown[]>(
      step: (open: OpenEntity, values: Row, ...rest: Rest) => Promise<Step | undefined>,
    ) =>
    (definition: AnyEntity, values: Row, ...rest: Rest) => {
      const opened = open(definition, values);
      planned.push(() => step(opened, values, ...rest));
    };
  return {
    async get(definition: AnyEntity, key: Row) {
      const opened = open(definition, key);
      const known = await read(opened, key);
      return known && copyOf(opened, known);
    },
    insert: plan(insertStep),
    upsert: plan(async (opened, row) => upsertOver(opened, await read(opened, row), row)),
    update: plan(async (opened, key, change: (current: Row) => Row | undefined) =>
      changeStep(opened, await mustRead(opened, key, read), change),
    ),
    delete: plan(async (opened, key) => {
      const before = await read(opened, key);
      return before && deleteStep(opened, before);
    }),
  };
}
