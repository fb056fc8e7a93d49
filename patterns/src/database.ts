import { validationFailed } from "./errors.ts";
import type { IndexStates } from "./model/entity-index.ts";
import type { Computed } from "./model/entry.ts";
import type { Openable } from "./model/openable.ts";
import type { BlobsPort } from "./ports/blobs.ts";
import type { Profile } from "./ports/profile.ts";
import type { QueuesPort } from "./ports/queues.ts";
import type { TablesPort } from "./ports/tables.ts";
import type { PageRead } from "./query/query.ts";
import { awakenedBy, type Clock, type Random, systemClock } from "./store/clock.ts";
import { type ByMs, inTime, type Layer, layered, type PortCall } from "./store/layer.ts";
import { type LimitOptions, limiter } from "./store/limit.ts";
import { meter, type Usage } from "./store/meter.ts";
import { resilience } from "./store/resilience.ts";
import { type Retry, type RetryOptions, retrying } from "./store/retry.ts";
import { ulid } from "./store/write-token.ts";
import { runTransaction, type Transaction } from "./transaction.ts";
import type { WriteOptions } from "./write.ts";

export interface ConnectOptions {
  /** `azureTables(serviceClient)`, or `memory().tables` in tests. */
  readonly tables: TablesPort;
  /** `azureQueues(serviceClient)`: for workers, outboxes, and indexes across partitions that survive their writer. */
  readonly queues?: QueuesPort;
  /** `azureBlobs(serviceClient)`: for large values, logs and lists in blobs. */
  readonly blobs?: BlobsPort;
  /** How often and for how long requests are repeated. Default: after 2, 4, 10 and 30 seconds. */
  readonly retry?: RetryOptions;
  /** Requests at once. Default: 64, of them 8 to one partition. */
  readonly limit?: LimitOptions;
  /** Signs paging cursors. */
  readonly cursorSecret?: string;
  /** What is worth a line in a log: scans, and what is left to a worker. Default: nobody hears of it. */
  readonly onEvent?: (event: DatabaseEvent) => void;
  /** `controlledIndexes()`, where indexes are built and retired while they are used. */
  readonly indexStates?: (database: Database) => IndexStates;
  /** Time and chance. Default: those of the system. */
  readonly clock?: Clock;
  readonly random?: Random;
  /** Sees every request as it is sent; `metered` puts its counter in front. */
  readonly meter?: Layer;
  /** Sees what each page of a query yielded. */
  readonly onPage?: (page: PageRead) => void;
  /** `checkedTwice`, during development: see the testing kit. */
  readonly computed?: Computed;
}

/** What is worth a line in a log. */
export type DatabaseEvent =
  | {
      readonly kind: "scan";
      readonly plan: string;
      readonly table: string;
      readonly filter: string;
      readonly because: string;
    }
  /** The entity was written, but what follows from it could not be: a worker or a scrub will. */
  | {
      readonly kind: "left behind";
      readonly index: string;
      readonly key: string;
      readonly error: unknown;
    }
  /** A list index outgrew its rows: from now on every change of this list writes a blob. */
  | { readonly kind: "list in blob"; readonly index: string; readonly key: string }
  /** Background work failed and goes on. */
  | { readonly kind: "background failure"; readonly what: string; readonly error: unknown };

/** When the work for which a database is opened ends. */
interface Bounds {
  readonly signal?: AbortSignal;
  readonly byMs?: ByMs;
}

/** What all requests of one endpoint go through. */
interface Gate {
  readonly limit: ReturnType<typeof limiter>;
  readonly retry: Retry;
}

/**
 * The way to the endpoints, shared by everything that is opened on it. Its ports look like those it was
 * given but limit parallelism, repeat what may succeed and count requests.
 */
export class Database {
  readonly tables: TablesPort;
  readonly queues: QueuesPort | undefined;
  readonly blobs: BlobsPort | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly cursorSecret: string | undefined;
  readonly indexStates: IndexStates | undefined;
  readonly onPage: ConnectOptions["onPage"];
  readonly computed: Computed;
  readonly #options: ConnectOptions;
  readonly #bounds: Bounds;
  readonly #gates: Partial<Record<PortCall["port"], Gate>>;

  /** A `parent` shares what it knows of indexes, its slots and its budget for retries. */
  constructor(options: ConnectOptions, parent?: Database, bounds: Bounds = {}) {
    const { signal, byMs } = bounds;
    const clock = options.clock ?? systemClock;
    this.clock = signal ? awakenedBy(clock, signal) : clock;
    this.random = options.random ?? Math.random;
    this.cursorSecret = options.cursorSecret;
    this.onPage = options.onPage;
    this.computed = options.computed ?? ((_name, compute, entity) => compute(entity));
    this.#options = options;
    this.#bounds = bounds;
    this.#gates = parent ? parent.#gates : {};
    this.indexStates = parent ? parent.indexStates : options.indexStates?.(this);
    const metered = options.meter ? [options.meter] : [];
    const open = <Port extends object>(name: PortCall["port"], port: Port) => {
      this.#gates[name] ??= {
        limit: limiter(clock, options.limit),
        retry: retrying(clock, this.random, options.retry),
      };
      const { limit, retry } = this.#gates[name];
      const limited = [limit(signal), ...metered];
      const tables = layered("tables", options.tables, ...limited);
      const timed = byMs ? [inTime(clock, byMs)] : [];
      return layered(name, port, resilience(retry, tables, signal), ...timed, ...limited);
    };
    this.tables = open("tables", options.tables);
    this.queues = options.queues && open("queues", options.queues);
    this.blobs = options.blobs && open("blobs", options.blobs);
  }

  get profile(): Profile {
    return this.tables.profile;
  }

  /**
   * This database, for work that a signal ends: from then on nothing is sent and nothing waits, for a slot,
   * a retry or another try; whatever was asked for rejects with the signal's reason. What is under way is
   * answered first. A write that ends so may have happened, or have left to a worker or a scrub what a
   * crash would have left. Without a signal it is this database itself.
   */
  until(signal: AbortSignal | undefined): Database {
    if (!signal) return this;
    const own = this.#bounds.signal;
    const either = own ? AbortSignal.any([own, signal]) : signal;
    return new Database(this.#options, this, { ...this.#bounds, signal: either });
  }

  /**
   * This database, for work that may be somebody else's later than `byMs` says: then nothing is sent any more, and the
   * service refuses to commit, put or delete what is still on the way. What `byMs` rejects with is what the request does.
   */
  inTime(byMs: ByMs): Database {
    const { byMs: own = byMs } = this.#bounds;
    const both = async () => Math.min(await own(), await byMs());
    return new Database(this.#options, this, { ...this.#bounds, byMs: both });
  }

  /** What a definition offers here: an entity its repository, a pattern its own API. No request. */
  open<Api>(definition: Openable<Api>): Api {
    return definition.open(this);
  }

  /** Creates the tables of these definitions; those that exist are left alone. */
  async createTables(
    ...definitions: readonly { readonly tables: readonly string[] }[]
  ): Promise<void> {
    const tables = new Set(definitions.flatMap((definition) => definition.tables));
    await Promise.all(Array.from(tables, (table) => this.tables.createTable(table)));
  }

  /**
   * Commits what `work` plans in one entity group transaction: all of it or nothing. `partition` names
   * the values of the partition key.
   * @throws batch-too-large, validation-failed, and what the single writes would throw.
   */
  tx<Result>(
    partition: Readonly<Record<string, unknown>>,
    work: (transaction: Transaction) => Result | Promise<Result>,
    options: WriteOptions = {},
  ): Promise<Result> {
    return runTransaction(this, partition, work, options);
  }

  /** A token for a logical write: unique, and later ones sort higher. */
  writeToken(): string {
    return ulid(this.clock, this.random);
  }

  report(event: DatabaseEvent): void {
    this.#options.onEvent?.(event);
  }

  /**
   * Runs `work` with a database of its own, which shares slots and what is known of indexes, and tells what was asked
   * of that one: run side by side with others, it counts nothing of theirs.
   */
  async metered<Result>(
    work: (database: Database) => Promise<Result>,
  ): Promise<Usage & { readonly result: Result }> {
    const { usage, layer } = meter();
    const ours = this.#options.meter;
    const both: Layer = (call, send) => layer(call, ours ? () => ours(call, send) : send);
    const options = { ...this.#options, meter: both };
    const result = await work(new Database(options, this, this.#bounds));
    return { ...usage, result };
  }
}

/**
 * The way to the endpoints that everything is opened on. No request.
 * @throws validation-failed for an official client by itself, and for limits that let nothing through.
 */
export function connect(options: ConnectOptions): Database {
  if (typeof options?.tables?.commit !== "function") {
    throw validationFailed(
      "The database",
      "tables",
      "give azureTables(client) of @rowhouse/patterns/azure-tables",
    );
  }
  return new Database(options);
}
