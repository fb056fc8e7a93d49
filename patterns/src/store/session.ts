import type { KeyRange } from "../keys/key-range.ts";
import type { BlobsPort } from "../ports/blobs.ts";
import type { Profile } from "../ports/profile.ts";
import type { QueuesPort } from "../ports/queues.ts";
import type { StoredEntity, TablesPort } from "../ports/tables.ts";
import { awakenedBy, type Clock, type Random, systemClock } from "./clock.ts";
import { type ByMs, inTime, type Layer, layered, type PortCall } from "./layer.ts";
import { type LimitOptions, limiter } from "./limit.ts";
import type { PageRead } from "./page-read.ts";
import { resilience } from "./resilience.ts";
import { type Retry, type RetryOptions, retrying } from "./retry.ts";
import { ulids } from "./write-token.ts";

export interface SessionOptions {
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
  /**
   * Receives events worth logging, such as scans and work left to a worker. Default: failures in the background
   * go to `console.error`, the others are dropped.
   */
  readonly onEvent?: (event: SessionEvent) => void;
  /**
   * `controlledIndexes()`, to build and retire indexes while they are in use. Default: each index is checked
   * once, and refused if it was declared over existing entities and never built. "trusted": it is used unchecked.
   */
  readonly indexStates?: ((session: Session) => IndexStates) | "trusted";
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

/** Runs one of the user's pure functions over an entity. */
export type Computed = <Result>(
  name: string,
  compute: (entity: Readonly<Record<string, unknown>>) => Result,
  entity: Readonly<Record<string, unknown>>,
) => Result;

/** Drawn in indexes/control.ts. */
export type IndexState = "disabled" | "writeonly" | "readable" | "readable-dups" | "retiring";

/** An index, as far as its state is concerned. */
export interface DeclaredIndex {
  /** `<Entity>.<index>`. */
  readonly label: string;
  /** `<table>.<Entity>.<index>@`: under a changed definition, it is another index with the same name. */
  readonly name: string;
  /** The name and a hash of the definition. */
  readonly key: string;
  /** Where its entities are, and what it takes to know one. */
  readonly table: string;
  readonly rows: KeyRange;
  readonly select: readonly string[];
  readonly isEntity: (row: StoredEntity) => boolean;
}

/** Controls which indexes may be used; see the life cycle of indexes. */
export interface IndexStates {
  stateOf(index: DeclaredIndex): Promise<UsableState>;
}

export interface UsableState {
  readonly state: IndexState;
  /** The time until which writes that rely on it may be committed, in milliseconds since 1970. */
  readonly commitByMs: number;
}

/** An event worth a line in a log. */
export type SessionEvent =
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
 * Access to the endpoints, for everything that is opened on it. Its ports look like the ones it was given, but
 * limit parallelism, retry, and count requests.
 */
export class Session {
  readonly tables: TablesPort;
  readonly queues: QueuesPort | undefined;
  readonly blobs: BlobsPort | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly cursorSecret: string | undefined;
  readonly indexStates: IndexStates | undefined;
  readonly onPage: SessionOptions["onPage"];
  readonly computed: Computed;
  /** A token for a logical write: unique, and higher than the tokens made before it. */
  readonly writeToken: () => string;
  protected readonly options: SessionOptions;
  protected readonly bounds: Bounds;
  readonly #gates: Partial<Record<PortCall["port"], Gate>>;

  /** A session with a `parent` shares its index states, its slots, its retry budget and its tokens. */
  constructor(options: SessionOptions, parent?: Session, bounds: Bounds = {}) {
    const { signal, byMs } = bounds;
    const clock = options.clock ?? systemClock;
    this.clock = signal ? awakenedBy(clock, signal) : clock;
    this.random = options.random ?? Math.random;
    this.cursorSecret = options.cursorSecret;
    this.onPage = options.onPage;
    this.computed = options.computed ?? ((_name, compute, entity) => compute(entity));
    this.options = options;
    this.bounds = bounds;
    this.#gates = parent ? parent.#gates : {};
    this.writeToken = parent ? parent.writeToken : ulids(clock, this.random);
    const { indexStates = "trusted" } = options;
    const own = indexStates === "trusted" ? undefined : indexStates;
    this.indexStates = parent ? parent.indexStates : own?.(this);
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
   * This session, for work that `signal` ends. Once the signal is aborted, no request is sent and nothing
   * waits for a slot, a retry or another attempt: pending calls reject with the signal's reason, after the
   * requests already in flight are answered. A write that ends this way may have happened, and may have left to
   * a worker or a scrub what a crash would have left. Without a signal, returns this session.
   */
  until(signal: AbortSignal | undefined): Session {
    return signal ? new Session(this.options, this, this.boundsUntil(signal)) : this;
  }

  /**
   * This session, for work that is ours only until the time `byMs` returns, such as work under a lease. After
   * that no request is sent, and the service refuses a commit, put or delete that is still on its way. If
   * `byMs` rejects, the request rejects with the same reason.
   */
  inTime(byMs: ByMs): Session {
    return new Session(this.options, this, this.boundsInTime(byMs));
  }

  report(event: SessionEvent): void {
    const { onEvent } = this.options;
    if (onEvent) onEvent(event);
    else if (event.kind === "background failure") console.error(`${event.what}:`, event.error);
  }

  protected boundsUntil(signal: AbortSignal): Bounds {
    const { signal: own } = this.bounds;
    return { ...this.bounds, signal: own ? AbortSignal.any([own, signal]) : signal };
  }

  protected boundsInTime(byMs: ByMs): Bounds {
    const { byMs: own = byMs } = this.bounds;
    return { ...this.bounds, byMs: async () => Math.min(await own(), await byMs()) };
  }
}
