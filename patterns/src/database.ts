import type { Openable } from "./model/entity.ts";
import type { IndexStates } from "./model/entity-index.ts";
import type { BlobsPort } from "./ports/blobs.ts";
import type { Profile } from "./ports/profile.ts";
import type { QueuesPort } from "./ports/queues.ts";
import type { TablesPort } from "./ports/tables.ts";
import { type Clock, type Random, systemClock } from "./store/clock.ts";
import { type Layer, layered, type PortCall } from "./store/layer.ts";
import { type LimitOptions, limitLayer } from "./store/limit.ts";
import { meter, type Usage } from "./store/meter.ts";
import { resilience } from "./store/resilience.ts";
import { Retry, type RetryOptions } from "./store/retry.ts";
import { ulid } from "./store/write-token.ts";
import { runTransaction, type Transaction } from "./transaction.ts";
import type { WriteOptions } from "./write.ts";

export interface ConnectOptions {
  /** `azureTables(serviceClient)`, or `memory().tables` in tests. */
  readonly tables: TablesPort;
  readonly queues?: QueuesPort;
  readonly blobs?: BlobsPort;
  readonly retry?: RetryOptions;
  readonly limit?: LimitOptions;
  /** Signs paging cursors. */
  readonly cursorSecret?: string;
  readonly onEvent?: (event: DatabaseEvent) => void;
  /** `controlledIndexes()`, where indexes are built and retired while they are used. */
  readonly indexStates?: (database: Database) => IndexStates;
  readonly clock?: Clock;
  readonly random?: Random;
  /** Sees every request as it is sent; `metered` puts its counter here. */
  readonly meter?: Layer;
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
  /** Background work failed and goes on. */
  | { readonly kind: "background failure"; readonly what: string; readonly error: unknown };

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
  readonly #options: ConnectOptions;

  constructor(options: ConnectOptions) {
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? Math.random;
    this.cursorSecret = options.cursorSecret;
    this.#options = options;
    this.indexStates = options.indexStates?.(this);
    const metered = options.meter ? [options.meter] : [];
    const open = <Port extends object>(name: PortCall["port"], port: Port) => {
      const limited = [limitLayer(this.clock, options.limit), ...metered];
      const retry = new Retry(this.clock, this.random, options.retry);
      return layered(
        name,
        port,
        resilience(retry, layered("tables", options.tables, ...limited)),
        ...limited,
      );
    };
    this.tables = open("tables", options.tables);
    this.queues = options.queues && open("queues", options.queues);
    this.blobs = options.blobs && open("blobs", options.blobs);
  }

  get profile(): Profile {
    return this.tables.profile;
  }

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

  /** Runs `work` with a database of its own and tells what that cost. */
  async metered<Result>(
    work: (database: Database) => Promise<Result>,
  ): Promise<Usage & { readonly result: Result }> {
    const { usage, layer } = meter();
    const result = await work(new Database({ ...this.#options, meter: layer }));
    return { ...usage, result };
  }
}

export function connect(options: ConnectOptions): Database {
  return new Database(options);
}
