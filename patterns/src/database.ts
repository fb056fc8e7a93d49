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
import { ulids } from "./store/write-token.ts";
import { runTransaction, type Transaction } from "./transaction.ts";
import type { WriteOptions } from "./write.ts";

export interface ConnectOptions {
  /** `azureTables(serviceClient)`, or `memory().tables` in tests. */
  readonly tables: TablesPort;
  /**
   * `azureQueues(serviceClient)`: for workers, outboxes, and indexes across partitions that a worker completes
   * after a crash.
   */
  readonly queues?: QueuesPort;
  /** `azureBlobs(serviceClient)`: for large values, logs and lists in blobs. */
  readonly blobs?: BlobsPort;
  /** How failed requests are retried. Default: after 2, 4, 10 and 30 seconds. */
  readonly retry?: RetryOptions;
  /** Requests in flight to each service. Default: 64, at most 8 of them to one partition. */
  readonly limit?: LimitOptions;
  /** Signs paging cursors, so that clients cannot forge them. */
  readonly cursorSecret?: string;
  /** Receives events worth logging, such as scans and work left to a worker. Default: events are dropped. */
  readonly onEvent?: (event: DatabaseEvent) => void;
  /** `controlledIndexes()`, to build and retire indexes while they are in use. */
  readonly indexStates?: (database: Database) => IndexStates;
  /** Time and randomness. Default: those of the system. */
  readonly clock?: Clock;
  readonly random?: Random;
  /** Sees every request as it is sent. `metered` adds its own counter before it. */
  readonly meter?: Layer;
  /** Receives the outcome of each page of a query. */
  readonly onPage?: (page: PageRead) => void;
  /** `checkedTwice` of the testing kit, during development. */
  readonly computed?: Computed;
}

/** An event worth a line in a log. */
export type DatabaseEvent =
  | {
      readonly kind: "scan";
      readonly plan: string;
      readonly table: string;
      readonly filter: string;
      readonly because: string;
    }
  /**
   * The entity was written, but an index entry or copy derived from it was not: a worker or a scrub will write
   * it.
   */
  | {
      readonly kind: "left behind";
      readonly index: string;
      readonly key: string;
      readonly error: unknown;
    }
  /** A list index outgrew its rows: from now on every change to this list writes a blob. */
  | { readonly kind: "list in blob"; readonly index: string; readonly key: string }
  /** Background work failed; it continues. */
  | { readonly kind: "background failure"; readonly what: string; readonly error: unknown };

/** The limits of the work that uses a database. */
interface Bounds {
  readonly signal?: AbortSignal;
  readonly byMs?: ByMs;
}

/** Shared by all requests to one service. */
interface Gate {
  readonly limit: ReturnType<typeof limiter>;
  readonly retry: Retry;
}

/**
 * Access to the endpoints, shared by everything opened on it. Its ports look like the ones it was given, but
 * limit parallelism, retry, and count requests.
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
  /** A token for a logical write: unique, and higher than the tokens made before it. */
  readonly writeToken: () => string;
  readonly #options: ConnectOptions;
  readonly #bounds: Bounds;
  readonly #gates: Partial<Record<PortCall["port"], Gate>>;

  /** A database with a `parent` shares its index states, its slots, its retry budget and its tokens. */
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
    this.writeToken = parent ? parent.writeToken : ulids(clock, this.random);
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
   * This database, for work that `signal` ends. Once the signal is aborted, no request is sent and nothing
   * waits for a slot, a retry or another attempt: pending calls reject with the signal's reason, after the
   * requests already in flight are answered. A write that ends this way may have happened, and may have left to
   * a worker or a scrub what a crash would have left. Without a signal, returns this database.
   */
  until(signal: AbortSignal | undefined): Database {
    if (!signal) return this;
    const own = this.#bounds.signal;
    const either = own ? AbortSignal.any([own, signal]) : signal;
    return new Database(this.#options, this, { ...this.#bounds, signal: either });
  }

  /**
   * This database, for work that is ours only until the time `byMs` returns, such as work under a lease. After
   * that no request is sent, and the service refuses a commit, put or delete that is still on its way. If
   * `byMs` rejects, the request rejects with the same reason.
   */
  inTime(byMs: ByMs): Database {
    const { byMs: own = byMs } = this.#bounds;
    const both = async () => Math.min(await own(), await byMs());
    return new Database(this.#options, this, { ...this.#bounds, byMs: both });
  }

  /** Returns the API of a definition: a repository for an entity, a pattern's own API. Sends no request. */
  open<Api>(definition: Openable<Api>): Api {
    return definition.open(this);
  }

  /** Creates the tables of these definitions; existing tables are left as they are. */
  async createTables(
    ...definitions: readonly { readonly tables: readonly string[] }[]
  ): Promise<void> {
    const tables = new Set(definitions.flatMap((definition) => definition.tables));
    await Promise.all(Array.from(tables, (table) => this.tables.createTable(table)));
  }

  /**
   * Commits everything that `work` plans in one entity group transaction: all of it or nothing. `partition`
   * gives the values of the partition key.
   * @throws batch-too-large, validation-failed, and the errors of the individual writes.
   */
  tx<Result>(
    partition: Readonly<Record<string, unknown>>,
    work: (transaction: Transaction) => Result | Promise<Result>,
    options: WriteOptions = {},
  ): Promise<Result> {
    return runTransaction(this, partition, work, options);
  }

  report(event: DatabaseEvent): void {
    this.#options.onEvent?.(event);
  }

  /**
   * Runs `work` with a database of its own and counts the requests sent through it. Concurrent work on other
   * databases is not counted; slots and index states are shared with it.
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
 * Opens the endpoints as one database. Sends no request.
 * @throws validation-failed when `tables` is an official client itself, and for limits that let nothing
 * through.
 */
export function connect(options: ConnectOptions): Database {
  if (typeof options?.tables?.commit !== "function") {
    throw validationFailed(
      "The database",
      "tables",
      "pass azureTables(client) of @rowhouse/patterns/azure-tables",
    );
  }
  return new Database(options);
}
