import { PLAN_CLASSES } from "../query/plan.ts";
import type { Observer, RequestRecord, Sender } from "../wire/observer.ts";
import type { Insight, QueryCost, QueryFacts, WriteFacts } from "./insight.ts";
import { Histogram, type Metric, single } from "./prometheus.ts";

/** In seconds. */
const REQUEST_BOUNDS = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
  5, 10, 30,
];
const ENGINE_BOUNDS = [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

/**
 * The counts of `/metrics`. Labels are the operation names of the services' analytics log, statuses, error
 * codes and query classes: a bounded number, and no user data.
 */
export class RequestMetrics implements Observer, Partial<Insight> {
  readonly #operations = new Map<string, OperationCounts>();
  readonly #errors = new Map<string, number>();
  /** By class, in the order of `PLAN_CLASSES`. */
  readonly #queries = PLAN_CLASSES.map(() => new QueryCounts());
  /** Of the previous request. Initially a placeholder: no operation has this name. */
  #last = new OperationCounts("table", "none");
  #entitiesWritten = 0;
  #connections = 0;

  finished(record: RequestRecord, sender?: Pick<Sender, "opensConnection">): void {
    if (sender?.opensConnection) this.#connections++;
    const { operation, service, status, errorCode } = record;
    // Usually the previous request's operation: names are constants, so comparing them compares addresses.
    let counts = this.#last;
    if (operation !== counts.operation || service !== counts.service) {
      counts = this.#countsOf(record);
      this.#last = counts;
    }
    counts.seconds.add(record.durationMs / 1000);
    if (status !== counts.lastStatus.status) counts.lastStatus = counts.statusOf(status);
    counts.lastStatus.count++;
    if (errorCode !== undefined) {
      this.#errors.set(errorCode, (this.#errors.get(errorCode) ?? 0) + 1);
    }
  }

  #countsOf({ operation, service }: RequestRecord): OperationCounts {
    // Operation names are unique across services; only "" is shared.
    const key = operation === "" ? service : operation;
    let counts = this.#operations.get(key);
    if (!counts) {
      counts = new OperationCounts(service, operation);
      this.#operations.set(key, counts);
    }
    return counts;
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    const counts = this.#queries[PLAN_CLASSES.indexOf(query.class)]!;
    counts.queries++;
    counts.entitiesRead += cost.entitiesRead;
    counts.entitiesReturned += cost.entitiesReturned;
    counts.bytesRead += cost.bytesRead;
    counts.seconds.add(cost.engineMicros / 1e6);
  }

  admitWrite({ mutations }: WriteFacts): void {
    this.#entitiesWritten += mutations.length;
  }

  metrics(): Metric[] {
    const operations = [...this.#operations.values()];
    const queries = this.#queries.map((counts, i) => ({ counts, plan: PLAN_CLASSES[i]! }));
    return [
      {
        name: "rowhouse_requests_total",
        type: "counter",
        help: "Requests answered, by operation and status.",
        samples: operations.flatMap(({ labels, statuses }) =>
          statuses.map(({ status, count }) => ({ labels: { ...labels, status }, value: count })),
        ),
      },
      {
        name: "rowhouse_request_duration_seconds",
        type: "histogram",
        help: "Time from a request's head to its answer.",
        samples: operations.flatMap(({ labels, seconds }) => seconds.samples(labels)),
      },
      {
        name: "rowhouse_errors_total",
        type: "counter",
        help: "Refused requests, by error code.",
        samples: [...this.#errors].map(([code, value]) => ({ labels: { code }, value })),
      },
      ...QUERY_COUNTERS.map(({ name, help, of }): Metric => {
        const samples = queries.map(({ counts, plan }) => ({
          labels: { class: plan },
          value: counts[of],
        }));
        return { name, type: "counter", help, samples };
      }),
      {
        name: "rowhouse_query_engine_seconds",
        type: "histogram",
        help: "Time per query page in the engine and the filter.",
        samples: queries.flatMap(({ counts, plan }) => counts.seconds.samples({ class: plan })),
      },
      single(
        "rowhouse_connections_opened_total",
        "counter",
        "Connections that sent a request.",
        this.#connections,
      ),
      single(
        "rowhouse_entities_written_total",
        "counter",
        "Entities in admitted writes.",
        this.#entitiesWritten,
      ),
    ];
  }
}

/** Each has one sample per class. */
const QUERY_COUNTERS = [
  { name: "rowhouse_queries_total", help: "Query pages, by class.", of: "queries" },
  { name: "rowhouse_entities_read_total", help: "Entities read by queries.", of: "entitiesRead" },
  {
    name: "rowhouse_entities_returned_total",
    help: "Entities returned by queries.",
    of: "entitiesReturned",
  },
  { name: "rowhouse_bytes_read_total", help: "Bytes read by queries.", of: "bytesRead" },
] as const;

class OperationCounts {
  readonly service: RequestRecord["service"];
  readonly operation: string;
  readonly statuses: StatusCount[] = [];
  readonly seconds = new Histogram(REQUEST_BOUNDS);
  lastStatus: StatusCount = { status: 0, count: 0 };

  constructor(service: RequestRecord["service"], operation: string) {
    this.service = service;
    this.operation = operation;
  }

  get labels() {
    const { service, operation } = this;
    return { service, operation: operation === "" ? `Unknown (${service})` : operation };
  }

  statusOf(status: number): StatusCount {
    const known = this.statuses.find((each) => each.status === status);
    if (known) return known;
    const first = { status, count: 0 };
    this.statuses.push(first);
    return first;
  }
}

interface StatusCount {
  readonly status: number;
  count: number;
}

class QueryCounts {
  queries = 0;
  entitiesRead = 0;
  entitiesReturned = 0;
  bytesRead = 0;
  readonly seconds = new Histogram(ENGINE_BOUNDS);
}

/** Counts that an embedded engine keeps. */
export interface EngineCounts {
  readonly flushes: number;
  readonly commits: number;
  readonly groupCommitsMax: number;
  readonly scansOpen: number;
  readonly fileBytes: number;
  /** Bytes inside the file that nothing refers to, which later writes use. */
  readonly unusedBytes: number;
  /** Free on the disk of the file. */
  readonly diskFreeBytes: number;
}

/** What `http/peer-memory.ts` counts. */
export interface PeerCounts {
  readonly bytes: number;
  readonly counts: {
    readonly cutForRoom: number;
    readonly cutForRate: number;
    readonly refused: number;
  };
}

export function peerMetrics({ bytes, counts }: PeerCounts): Metric[] {
  return [
    single(
      "rowhouse_peer_memory_bytes",
      "gauge",
      "Memory held for unfinished requests, bodies in work and unread answers.",
      bytes,
    ),
    {
      name: "rowhouse_peers_cut_total",
      type: "counter",
      help: "Connections cut: the slowest when there was no room, or below the minimum rate.",
      samples: [
        { labels: { reason: "room" }, value: counts.cutForRoom },
        { labels: { reason: "rate" }, value: counts.cutForRate },
      ],
    },
    single(
      "rowhouse_peers_refused_total",
      "counter",
      "Requests refused with 503 because there was no room for their bodies.",
      counts.refused,
    ),
  ];
}

/** What `http/open-connections.ts` counts. */
export interface ConnectionCounts {
  readonly counts: { readonly closedIdle: number; readonly refused: number };
}

export function connectionMetrics({ counts }: ConnectionCounts): Metric {
  return {
    name: "rowhouse_connections_closed_total",
    type: "counter",
    help: "Connections closed because too many were open: the oldest idle, or new ones where none was idle.",
    samples: [
      { labels: { reason: "idle" }, value: counts.closedIdle },
      { labels: { reason: "refused" }, value: counts.refused },
    ],
  };
}

export function engineMetrics(counts: EngineCounts): Metric[] {
  const { flushes, commits, groupCommitsMax, scansOpen, fileBytes } = counts;
  const { unusedBytes, diskFreeBytes } = counts;
  return [
    single("rowhouse_engine_flushes_total", "counter", "Flushes to disk.", flushes),
    single(
      "rowhouse_engine_commits_total",
      "counter",
      "Commits; several can share a flush.",
      commits,
    ),
    single(
      "rowhouse_engine_group_commits_max",
      "gauge",
      "Most commits that shared one flush.",
      groupCommitsMax,
      "max",
    ),
    single("rowhouse_engine_readers", "gauge", "Open scans, each holding a snapshot.", scansOpen),
    single("rowhouse_engine_file_bytes", "gauge", "Size of the data file.", fileBytes, "max"),
    single(
      "rowhouse_engine_unused_bytes",
      "gauge",
      "Bytes inside the data file that later writes can use.",
      unusedBytes,
      "min",
    ),
    single(
      "rowhouse_disk_free_bytes",
      "gauge",
      "Free bytes on the disk of the data file.",
      diskFreeBytes,
      "min",
    ),
  ];
}
