import { entity, type Infer } from "./entities/entity.ts";
import { EntityRepository, type Repository } from "./entities/repository.ts";
import { definitionRefused, validationFailed } from "./errors.ts";
import { CONTROL_TABLE } from "./indexes/control.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { parseMessage } from "./messages/large-message.ts";
import type { EntityRows, Fields, Row } from "./model/entity-rows.ts";
import type {
  AnyEntity,
  Change,
  Follower,
  FollowerContext,
  OpenFollower,
} from "./model/follower.ts";
import type { CheckedKey } from "./model/key-query.ts";
import type { Openable } from "./model/openable.ts";
import { assertTable } from "./model/storage-name.ts";
import { outbox } from "./outbox.ts";
import { printKey } from "./ports/mutation.ts";
import { isRefusal, unlessRefused } from "./ports/port-error.ts";
import type { EntityKey } from "./ports/tables.ts";
import type { Handler } from "./queue-worker.ts";
import { isFresh } from "./store/clock.ts";
import { queuesOf } from "./store/connected-ports.ts";
import type { Session } from "./store/session.ts";
import { ViewProjector } from "./views/view-projector.ts";
import { partitionOf, readState, tableOf, type ViewState } from "./views/view-state.ts";

export interface ViewOptions<
  Source,
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
> {
  readonly fields: F;
  /** Must include all fields of the source's key, so that every row of the view identifies its source. */
  readonly key: {
    readonly partition: P & CheckedKey<P, Infer<F>>;
    readonly row: R & CheckedKey<R, Infer<F>>;
  };
  /** The rows that a source has in the view. Fields that the view does not declare are dropped. Pure. */
  readonly project: (source: Source) => NoInfer<Infer<F> | readonly Infer<F>[] | undefined>;
  /** The queue for changes, received by a worker with `viewUpdates`. */
  readonly queue: string;
}

/** The rows of a view are read like those of an entity, and written by its projector only. */
export type ViewRows<T, P extends KeyDeclaration, R extends KeyDeclaration> = Pick<
  Repository<T, P, R, Readonly<Record<never, never>>>,
  "get" | "mustGet" | "getMany" | "range" | "scan"
>;

export interface OpenView<Rows> {
  /** The rows to read now. Call it for every use: an answer is valid for 30 seconds, then this costs 1 R. */
  current(): Promise<Rows>;
  /** How far the view lags behind. 3 R. */
  status(): Promise<ViewStatus>;
}

export interface ViewStatus {
  readonly generation: number;
  /** The number of sources that a running rebuild has processed. */
  readonly rebuilding?: number;
  /** The age of the oldest waiting change among the first 32 messages of the queue; 0 when none waits. */
  readonly lagMs: number;
  /** The time of the latest applied change, up to a few seconds out of date; undefined when there was none. */
  readonly appliedTo: Date | undefined;
}

/** The message to the projector: the source that changed, and the keys of its old and new rows. */
interface ViewUpdate {
  readonly view: string;
  readonly entity: string;
  readonly table: string;
  readonly base: EntityKey;
  readonly keys: readonly EntityKey[];
}

const KIND = "view";
const APPLIED = "appliedTo";
/** Table names must have room for this number. */
const GENERATION_MAX = 999;
const GENERATION_KEPT_MS = 30_000;
const CHECKPOINT_MS = 10_000;
const TRIES_MAX = 5;
const PEEK_MAX = 32;

/**
 * Declares a view: rows computed from another entity's, maintained by a worker. Declare it among the source's
 * followers, and open it to read.
 */
export function view<
  Source,
  const F extends Fields,
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
>(name: string, options: ViewOptions<Source, F, P, R>): View<ViewRows<Infer<F>, P, R>> {
  const { fields, key, queue } = options;
  if (/\d$/.test(name)) {
    const message = "ends in a digit, as its generations' tables do";
    throw definitionRefused(`The view ${name}`, "name", message);
  }
  // Each generation has a table with its number after the name.
  assertTable(`The view ${name}`, tableOf(name, GENERATION_MAX));
  const definition: AnyEntity = entity(name, {
    version: 1,
    fields: fields as Fields,
    key: { partition: key.partition as KeyDeclaration, row: key.row as KeyDeclaration },
  });
  // Rows are decoded by the definition of the source that the view is declared on.
  const project = options.project as (source: Row) => Row | readonly Row[] | undefined;
  const names = Object.keys(fields);
  // Types allow a row more fields than the view has, among them those that the source gets later.
  const own = (row: Row): Row => Object.fromEntries(names.map((field) => [field, row[field]]));
  return new View(definition, queue, (source) => [project(source) ?? []].flat().map(own));
}

export class View<Rows> implements Follower, Openable<OpenView<Rows>> {
  readonly name: string;
  readonly rows: EntityRows;
  readonly queue: string;
  readonly project: (source: Row) => readonly Row[];
  /** A generation's table is created when it is needed. */
  readonly tables: readonly string[] = [];
  readonly queues: readonly string[];
  readonly #definition: AnyEntity;

  constructor(definition: AnyEntity, queue: string, project: (source: Row) => readonly Row[]) {
    this.#definition = definition;
    this.name = definition.name;
    this.rows = definition.rows;
    this.queue = queue;
    this.queues = [queue];
    this.project = project;
  }

  problems(source: AnyEntity): string[] {
    const fields = Array.from(source.rows.keyFields).filter(
      (name) =>
        !this.rows.keyFields.has(name) ||
        this.rows.fields[name]?.edm !== source.rows.fields[name]?.edm,
    );
    return [
      ...fields.map(
        (name) => `needs "${name}" of the source's key in its own key, of the same type`,
      ),
      ...outbox({ queue: this.queue, message: () => undefined }).problems(source, this.name),
    ];
  }

  follow(context: FollowerContext): OpenFollower {
    const projector = new ViewProjector(context.session, this, context.entity);
    const message = ({ before, after, key }: Pick<Change, "key" | "before" | "after">) => {
      if (this.#print(before?.row) === this.#print(after)) return undefined;
      const rows = [...projector.rowsOf(before?.row), ...projector.rowsOf(after)];
      const { name, table } = context.entity;
      const body: ViewUpdate = {
        view: this.name,
        entity: name,
        table,
        base: key,
        // Each once.
        keys: [...new Map(rows.map(({ key }) => [printKey(key), key])).values()],
      };
      return { kind: KIND, key: key.rowKey, body };
    };
    return outbox({ queue: this.queue, message }).follow(context);
  }

  open(session: Session): OpenView<Rows> {
    let known: { readonly rows: EntityRepository; readonly readAtMs: number } | undefined;
    return {
      current: async () => {
        if (!known || !isFresh(session.clock, known.readAtMs, GENERATION_KEPT_MS)) {
          const readAtMs = session.clock.now();
          const { state, row } = await readState(session, this.name);
          const table = tableOf(this.name, state.readable);
          if (!row) await session.tables.createTable(table);
          const definition = { ...this.#definition, table };
          known = { rows: new EntityRepository(session, definition), readAtMs };
        }
        // The repository's rows follow the declaration that the type was inferred from.
        return known.rows as Rows;
      },
      status: () => this.#status(session),
    };
  }

  /** What the view shows of a source, for comparison. */
  #print(source: Row | undefined): string {
    const shown = (row: Row) => [
      this.rows.partition.encode(row),
      this.rows.row.encode(row),
      this.rows.properties(row),
    ];
    return JSON.stringify(source ? this.project(source).map(shown) : []);
  }

  async #status(session: Session): Promise<ViewStatus> {
    const [{ state }, checkpoint, waiting] = await Promise.all([
      readState(session, this.name),
      unlessRefused(session.tables.get(CONTROL_TABLE, checkpointOf(this.name)), 404),
      queuesOf(session).peek(this.queue, PEEK_MAX),
    ]);
    const times = waiting.flatMap(({ text }) => {
      const message = parseMessage(text);
      const isOurs = message?.kind === KIND && (message.body as ViewUpdate).view === this.name;
      return isOurs ? [Date.parse(message.at)] : [];
    });
    const now = session.clock.now();
    const applied = checkpoint?.properties[APPLIED]?.value;
    return {
      generation: state.readable,
      lagMs: now - Math.min(now, ...times),
      appliedTo: applied === undefined ? undefined : new Date(String(applied)),
      ...(state.building !== undefined && { rebuilding: state.done ?? 0 }),
    };
  }
}

/** The handler that updates the views of these entities after a change. */
export function viewUpdates(definitions: readonly AnyEntity[]): Handler {
  const checkpoints = new Map<string, number>();
  return {
    kind: KIND,
    async handle({ at, body }, { database: session }) {
      // We sent it ourselves; the handler's kind says so.
      const { view: name, entity: sourceName, table, base, keys } = body as ViewUpdate;
      const source = definitions.find((one) => one.name === sourceName && one.table === table);
      const views = Object.values(source?.followers ?? {}).filter((one) => one instanceof View);
      const target = views.find((one) => one.name === name);
      if (!source || !target) {
        throw validationFailed(
          "The change",
          "view",
          `${name} of ${sourceName} is unknown to this worker`,
        );
      }
      const projector = new ViewProjector(session, target, source);
      await inEveryGeneration(session, name, async (rows) => {
        for (const key of keys) await projector.reconcile(rows, base, key);
      });
      const now = session.clock.now();
      if (now - (checkpoints.get(name) ?? 0) < CHECKPOINT_MS) return;
      checkpoints.set(name, now);
      await writeCheckpoint(session, name, at);
    },
  };
}

/** Runs `work` on the table of every generation that is read or built, and creates missing tables. */
async function inEveryGeneration(
  session: Session,
  name: string,
  work: (table: string) => Promise<void>,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    const { state } = await readState(session, name);
    try {
      for (const generation of generationsOf(state)) await work(tableOf(name, generation));
      return;
    } catch (error) {
      if (!isRefusal(error, 404) || tries === TRIES_MAX) throw error;
      // Not created yet, or dropped since the state was read.
      const latest = await readState(session, name);
      for (const generation of generationsOf(latest.state)) {
        await session.tables.createTable(tableOf(name, generation));
      }
    }
  }
}

function generationsOf({ readable, building }: ViewState): number[] {
  return building === undefined ? [readable] : [readable, building];
}

async function writeCheckpoint(session: Session, view: string, at: string): Promise<void> {
  const properties = { [APPLIED]: { type: "DateTime", value: at } } as const;
  const mutation = { kind: "insertOrReplace", ...checkpointOf(view), properties } as const;
  const write = () => session.tables.commit(CONTROL_TABLE, [mutation]);
  if (await unlessRefused(write(), 404)) return;
  await session.tables.createTable(CONTROL_TABLE);
  await write();
}

function checkpointOf(view: string): EntityKey {
  return { partitionKey: partitionOf(view), rowKey: "applied" };
}
