import { type ErrorCode, ServiceError } from "@rowhouse/protocol/errors";
import { LATE_MS_MAX } from "./decay.ts";
import {
  countedEntities,
  type Insight,
  partitionName,
  partitionNameOf,
  type QueryCost,
  type QueryFacts,
  type WriteFacts,
} from "./insight.ts";
import { type Metric, single } from "./prometheus.ts";

/** The cloud's published scalability targets, in entities (of 1 KiB) a second. */
export const AZURE_TARGETS = { account: 20_000, partition: 2_000 } as const;

export type TargetsMode = "what-if" | "enforce";

/** A place where the cloud would have refused requests, or where they were refused. */
export interface Throttled {
  /** `account`, or `account/table/partition key`. */
  readonly where: string;
  readonly code: "ServerBusy" | "OperationTimedOut";
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  lastAt: number;
  count: number;
}

export interface TargetsReport {
  readonly mode: TargetsMode;
  readonly targets: typeof AZURE_TARGETS;
  readonly requests: number;
  readonly entities: number;
  readonly throttled: number;
  /** The first 100 places where throttling began, in that order. */
  readonly places: readonly Throttled[];
}

/** One report of several processes, each of which allowed its part. */
export function joinReports(parts: readonly TargetsReport[]): TargetsReport {
  const [first] = parts;
  const places = new Map<string, Throttled>();
  const begun = parts.flatMap((part) => part.places).sort((a, b) => a.firstAt - b.firstAt);
  for (const place of begun) {
    const key = `${place.code} ${place.where}`;
    const known = places.get(key);
    if (known) {
      known.count += place.count;
      known.lastAt = Math.max(known.lastAt, place.lastAt);
    } else if (places.size < PLACES_MAX) places.set(key, { ...place });
  }
  const sum = (count: "requests" | "entities" | "throttled") =>
    parts.reduce((total, part) => total + part[count], 0);
  return {
    mode: first?.mode ?? "what-if",
    targets: AZURE_TARGETS,
    requests: sum("requests"),
    entities: sum("entities"),
    throttled: sum("throttled"),
    places: [...places.values()],
  };
}

/** Partitions with less than their full allowance; the others need no record. */
const PARTITIONS_MAX = 2048;
const PLACES_MAX = 100;
/** A partition this far behind would not answer within the time that clients wait. */
const BACKLOG_SECONDS_MAX = 10;
const ACCOUNT_BUSY = "Operations per second is over the account limit.";

/** An allowance that refills at the target's rate, up to one second's worth. A large scan leaves a debt. */
interface Allowance {
  entities: number;
  at: number;
}

/**
 * Counts as the service counts: each entity that a query scans, at least one per request, and each member of
 * a transaction. A request is refused while its account or its partition is in debt; a refused request counts
 * nothing. A query's cost is known only afterwards, so the first one over the target is still served.
 *
 * `what-if` judges the same but refuses nothing. It judges a query at its end, in the order of a recording, so that
 * `rowhouse advise` counts the same; `enforce` has to do it at the beginning, when parallel queries are not charged
 * yet. One after the other, both modes name the same requests. A query of several partitions counts only for the
 * account. The cloud's behavior is published as targets, not
 * as a rule; this is the plain reading of them.
 */
export class AzureTargets implements Insight {
  readonly #mode: TargetsMode;
  readonly #onPlace: (place: Throttled) => void;
  readonly #accountRate: number;
  readonly #partitionRate: number;
  readonly #accounts = new Map<string, Allowance>();
  readonly #partitions = new Map<string, Allowance>();
  readonly #places = {
    ServerBusy: new Map<string, Throttled>(),
    OperationTimedOut: new Map<string, Throttled>(),
  };
  /** In the order in which throttling began. */
  readonly #throttledPlaces: Throttled[] = [];
  #requests = 0;
  #entities = 0;
  #throttled = 0;

  /**
   * @param onPlace called once for each place where throttling begins
   * @param processes number of processes that share the traffic; each allows its part
   */
  constructor(mode: TargetsMode, onPlace: (place: Throttled) => void = () => {}, processes = 1) {
    this.#mode = mode;
    this.#onPlace = onPlace;
    this.#accountRate = AZURE_TARGETS.account / processes;
    this.#partitionRate = AZURE_TARGETS.partition / processes;
  }

  admitQuery(query: QueryPosition): void {
    if (this.#mode === "enforce") this.#refuses(query.at, query.account, partitionNameOf(query));
  }

  queried(query: QueryPosition, { entitiesRead }: Pick<QueryCost, "entitiesRead">): void {
    const { at, account } = query;
    const partition = partitionNameOf(query);
    if (this.#mode === "what-if" && this.#refuses(at, account, partition)) return;
    this.#charge(at, account, partition, countedEntities(entitiesRead));
  }

  admitWrite({ at, account, table, partitionKey, mutations }: WritePosition): void {
    const name = partitionName(account, table, partitionKey);
    if (!this.#refuses(at, account, name)) this.#charge(at, account, name, mutations.length);
  }

  report(): TargetsReport {
    return {
      mode: this.#mode,
      targets: AZURE_TARGETS,
      requests: this.#requests,
      entities: this.#entities,
      throttled: this.#throttled,
      places: [...this.#throttledPlaces],
    };
  }

  metrics(): Metric[] {
    const help = "Requests that the cloud would have throttled, or that were throttled.";
    return [single("rowhouse_targets_throttled_total", "counter", help, this.#throttled)];
  }

  /** Returns whether the request would be refused. @throws ServiceError where targets are enforced */
  #refuses(now: number, account: string, partition: string | undefined): boolean {
    this.#requests++;
    const ofAccount = this.#ofAccount(account);
    if (fill(ofAccount, this.#accountRate, now) <= 0) {
      return this.#refuse(account, "ServerBusy", now, ACCOUNT_BUSY);
    }
    if (partition === undefined) return false;
    const ofPartition = this.#partitions.get(partition);
    if (!ofPartition) return false;
    const left = fill(ofPartition, this.#partitionRate, now);
    if (left > 0) return false;
    const isHopeless = -left > BACKLOG_SECONDS_MAX * this.#partitionRate;
    return this.#refuse(partition, isHopeless ? "OperationTimedOut" : "ServerBusy", now);
  }

  #refuse(where: string, code: Throttled["code"], now: number, message?: string): true {
    this.#throttled++;
    const places = this.#places[code];
    const known = places.get(where);
    if (known) {
      known.count++;
      known.lastAt = now;
    } else if (this.#throttledPlaces.length < PLACES_MAX) {
      const place: Throttled = { where, code, firstAt: now, lastAt: now, count: 1 };
      places.set(where, place);
      this.#throttledPlaces.push(place);
      this.#onPlace(place);
    }
    if (this.#mode === "what-if") return true;
    throw new ServiceError(code satisfies ErrorCode, message === undefined ? {} : { message });
  }

  #charge(now: number, account: string, partition: string | undefined, entities: number): void {
    this.#entities += entities;
    const ofAccount = this.#ofAccount(account);
    fill(ofAccount, this.#accountRate, now);
    ofAccount.entities -= entities;
    if (partition === undefined) return;
    const known = this.#partitions.get(partition);
    if (known) {
      fill(known, this.#partitionRate, now);
      known.entities -= entities;
      return;
    }
    if (this.#partitions.size >= PARTITIONS_MAX) {
      for (const [name, allowance] of this.#partitions) {
        const isFull = fill(allowance, this.#partitionRate, now) >= this.#partitionRate;
        if (isFull) this.#partitions.delete(name);
      }
      // With this many partitions below their full allowance, the account reaches its target first.
      if (this.#partitions.size >= PARTITIONS_MAX) return;
    }
    this.#partitions.set(partition, { entities: this.#partitionRate - entities, at: now });
  }

  #ofAccount(account: string): Allowance {
    let allowance = this.#accounts.get(account);
    if (!allowance) {
      allowance = { entities: this.#accountRate, at: Number.NEGATIVE_INFINITY };
      this.#accounts.set(account, allowance);
    }
    return allowance;
  }
}

/** The parts of a query and of a write that are judged; a recording has no more. */
type QueryPosition = Pick<QueryFacts, "at" | "account" | "table" | "partitionKey" | "partition">;
type WritePosition = Omit<WriteFacts, "mutations"> & { readonly mutations: ArrayLike<unknown> };

/** The current allowance, refilled for the time since it was last used. */
function fill(allowance: Allowance, rate: number, now: number): number {
  if (now > allowance.at) {
    const came = ((now - allowance.at) / 1000) * rate;
    allowance.entities = Math.min(rate, allowance.entities + came);
    allowance.at = now;
  } else if (now < allowance.at - LATE_MS_MAX) {
    allowance.at = now;
  }
  return allowance.entities;
}
