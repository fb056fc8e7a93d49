import { checkedIndexes } from "./entities/checked-indexes.ts";
import { runTransaction, type Transaction } from "./entities/transaction.ts";
import type { WriteOptions } from "./entities/write.ts";
import { validationFailed } from "./errors.ts";
import type { Needs, Openable } from "./model/openable.ts";
import type { BlobsPort } from "./ports/blobs.ts";
import type { QueuesPort } from "./ports/queues.ts";
import type { ByMs, Layer } from "./store/layer.ts";
import { meter, type Usage } from "./store/meter.ts";
import { Session, type SessionEvent, type SessionOptions } from "./store/session.ts";

export type ConnectOptions = SessionOptions;
export type DatabaseEvent = SessionEvent;

/** What `connect` returns: a session on which a program opens its definitions. */
export class Database extends Session {
  /** Returns the API of a definition: a repository for an entity, a pattern's own API. Sends no request. */
  open<Api>(definition: Openable<Api>): Api {
    return definition.open(this);
  }

  /**
   * Creates the tables, queues and containers of these definitions and workers; what exists is left as it is.
   * Without queues or blobs in `connect`, those are left out.
   */
  async provision(...needs: readonly Needs[]): Promise<void> {
    const all = (kind: "tables" | "queues" | "containers") => [
      ...new Set(needs.flatMap((need) => need[kind] ?? [])),
    ];
    await Promise.all([
      ...all("tables").map((table) => this.tables.createTable(table)),
      ...all("queues").map((queue) => this.queues?.createQueue(queue)),
      ...all("containers").map((container) => this.blobs?.createContainer(container)),
    ]);
    // Registers the indexes of new tables. One that is refused is refused again when it is used.
    await Promise.allSettled(
      needs.flatMap(({ declared = [] }) => declared.map((one) => this.indexStates?.stateOf(one))),
    );
  }

  /** Creates the tables of these definitions; existing tables are left as they are. */
  async createTables(
    ...definitions: readonly (Pick<Needs, "declared"> & { readonly tables: readonly string[] })[]
  ): Promise<void> {
    await this.provision(...definitions.map(({ tables, declared = [] }) => ({ tables, declared })));
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

  override until(signal: AbortSignal | undefined): Database {
    return signal ? new Database(this.options, this, this.boundsUntil(signal)) : this;
  }

  override inTime(byMs: ByMs): Database {
    return new Database(this.options, this, this.boundsInTime(byMs));
  }

  /**
   * Runs `work` with a database of its own and counts the requests sent through it. Concurrent work on other
   * databases is not counted; slots and index states are shared with it.
   */
  async metered<Result>(
    work: (database: Database) => Promise<Result>,
  ): Promise<Usage & { readonly result: Result }> {
    const { usage, layer } = meter();
    const ours = this.options.meter;
    const both: Layer = (call, send) => layer(call, ours ? () => ours(call, send) : send);
    const options = { ...this.options, meter: both };
    const result = await work(new Database(options, this, this.bounds));
    return { ...usage, result };
  }
}

export interface WithQueues {
  readonly queues: QueuesPort;
}

export interface WithBlobs {
  readonly blobs: BlobsPort;
}

/**
 * Opens the endpoints as one database. Sends no request.
 * @throws validation-failed when `tables` is an official client itself, and for limits that let nothing
 * through.
 */
export function connect(
  options: ConnectOptions & WithQueues & WithBlobs,
): Database & WithQueues & WithBlobs;
export function connect(options: ConnectOptions & WithBlobs): Database & WithBlobs;
export function connect(options: ConnectOptions & WithQueues): Database & WithQueues;
export function connect(options: ConnectOptions): Database;
export function connect(options: ConnectOptions): Database {
  if (typeof options?.tables?.commit !== "function") {
    throw validationFailed(
      "The database",
      "tables",
      "pass azureTables(client) of @rowhouse/patterns/azure-tables",
    );
  }
  return new Database({ ...options, indexStates: options.indexStates ?? checkedIndexes });
}
