import { LIMITS } from "@rowhouse/protocol/limits";
import type { QueryEvent, RecordedMutation, TrafficEvent, WriteEvent } from "../recording.ts";
import {
  counted,
  type Finding,
  getOrMake,
  nameOf,
  type Observed,
  type Rule,
  tableOf,
} from "./rule.ts";

const RUN_MIN = 10;
/** Writes further apart than this arrived one by one, such as people's messages or a device's readings. */
const RUN_GAP_MS = 100;

/** Consecutive single writes of one client into one partition, each of a different entity. */
class WriteRun {
  readonly first: WriteEvent;
  readonly #rowKeys = new Set<string>();
  #lastAt: number;

  constructor(first: WriteEvent) {
    this.first = first;
    this.#lastAt = first.at;
  }

  get length(): number {
    return this.#rowKeys.size;
  }

  /** Whether a write continues this run; if so, it is counted. */
  takes({ account, at, mutations, partitionKey, table }: WriteEvent): boolean {
    const [only] = mutations;
    if (only === undefined || mutations.length > 1 || this.#rowKeys.has(only.rowKey)) return false;
    const { first } = this;
    if (first.partitionKey !== partitionKey || at - this.#lastAt >= RUN_GAP_MS) return false;
    if (first.table !== table || first.account !== account) return false;
    this.#rowKeys.add(only.rowKey);
    this.#lastAt = at;
    return true;
  }
}

interface Runs {
  runs: number;
  writes: number;
  /** The number of transactions that could have carried the writes. */
  transactions: number;
  readonly example: string;
}

/** Finds runs of single writes of different entities in one partition, which a transaction could have carried. */
export class SingleWrites implements Rule {
  /** The last run of each client, which may continue. */
  readonly #runs = new Map<string, WriteRun>();
  /** By table. */
  readonly #found = new Map<string, Runs>();

  wrote(write: WriteEvent): void {
    const last = this.#runs.get(write.client);
    if (last?.takes(write)) return;
    if (last) this.#end(last);
    const run = new WriteRun(write);
    if (run.takes(write)) this.#runs.set(write.client, run);
    else this.#runs.delete(write.client);
  }

  #end({ first, length }: WriteRun): void {
    if (length < RUN_MIN) return;
    const example = `${length} writes to ${first.partitionKey}`;
    const none = () => ({ runs: 0, writes: 0, transactions: 0, example });
    const runs = getOrMake(this.#found, tableOf(first), none);
    runs.runs++;
    runs.writes += length;
    runs.transactions += Math.ceil(length / LIMITS.transactionOperationsMax);
  }

  findings(): Finding[] {
    for (const run of this.#runs.values()) this.#end(run);
    return [...this.#found].flatMap(([table, { example, runs, transactions, writes }]) => {
      if (runs < 3 && writes < 50) return [];
      return {
        ...{ rule: "single-writes", table, subject: "" },
        title: `${writes} entities were written one by one, in ${counted(runs, "run")} of writes to one partition`,
        evidence: [`for example ${example}`],
        cost: `${writes} requests and flushes; ${counted(transactions, "transaction")} would do.`,
        remedy: {
          pattern: "entity group transactions",
          advice: "Send writes to one partition together, up to 100 per transaction.",
          layout: [],
        },
      };
    });
  }
}

const READ_AGO_MS = 5000;
/** How many operations of the client may come in between, since it may serve many requests concurrently. */
const READ_AGO_OPERATIONS = 64;
const CLIENT_READS_MAX = 10_000;

/** A table's writes, and how many of them soon followed a read of the same entity. */
class WritesAfterReads {
  inserts = 0;
  insertsAfter = 0;
  /** Unconditional updates, for which the value read makes no difference. */
  updates = 0;
  updatesAfter = 0;
  /** Updates with the ETag that was read. */
  exactAfter = 0;
  example = "";

  /**
   * A client that inserts what it did not find reads for the sake of its updates, with the ETag it read; as long as
   * it has updated nothing, we cannot know how it does. The insert itself is refused where another client was faster.
   */
  get areForUpdates(): boolean {
    return this.exactAfter > 0 || this.updatesAfter === 0;
  }

  /** By kind of write: how many there were, and how many of them came after a read. Each is judged alone. */
  get kinds(): readonly { readonly after: number; readonly all: number }[] {
    const { inserts, insertsAfter, updates, updatesAfter } = this;
    const ofUpdates = { after: updatesAfter, all: updates };
    if (this.areForUpdates) return [ofUpdates];
    const ofInserts = { after: insertsAfter, all: inserts };
    return [ofUpdates, ofInserts, { after: updatesAfter + insertsAfter, all: updates + inserts }];
  }
}

/** Finds point queries that serve only to choose between insert and update, or to fill an upsert. */
export class ReadBeforeWrite implements Rule {
  /** By entity, the time of its last read and that read's position among the client's operations. */
  readonly #reads = new Map<string, { readonly at: number; readonly turn: number }>();
  /** Number of operations, by client. */
  readonly #turns = new Map<string, number>();
  /** Clients, by table, that have read an entity of it. What they wrote before that filled the table. */
  readonly #readers = new Set<string>();
  readonly #tables = new Map<string, WritesAfterReads>();

  queried(query: QueryEvent): void {
    const { at, partitionKey = "", rowKey } = query;
    const turn = this.#turnOf(query);
    if (rowKey === undefined) return;
    this.#readers.add(`${query.client} ${tableOf(query)}`);
    if (this.#reads.size >= CLIENT_READS_MAX) this.#reads.clear();
    this.#reads.set(entityOf(query, partitionKey, rowKey), { at, turn });
  }

  #turnOf({ client }: TrafficEvent): number {
    const turn = (this.#turns.get(client) ?? 0) + 1;
    this.#turns.set(client, turn);
    return turn;
  }

  wrote(write: WriteEvent): void {
    const turn = this.#turnOf(write);
    if (!this.#readers.has(`${write.client} ${tableOf(write)}`)) return;
    for (const mutation of write.mutations) {
      const { condition, kind } = mutation;
      if (kind === "delete") continue;
      const counts = getOrMake(this.#tables, tableOf(write), () => new WritesAfterReads());
      const wasRead = this.#takeRead(write, mutation, turn);
      if (condition === "exact") {
        if (wasRead) counts.exactAfter++;
        continue;
      }
      if (wasRead) counts.example = `${write.partitionKey}/${mutation.rowKey}, then ${kind}`;
      if (kind === "insert") {
        counts.inserts++;
        if (wasRead) counts.insertsAfter++;
      } else {
        counts.updates++;
        if (wasRead) counts.updatesAfter++;
      }
    }
  }

  /** Whether the entity was read a moment ago. Each read counts for one write. */
  #takeRead(write: WriteEvent, { rowKey }: RecordedMutation, turn: number): boolean {
    const key = entityOf(write, write.partitionKey, rowKey);
    const read = this.#reads.get(key);
    if (read === undefined || write.at - read.at > READ_AGO_MS) return false;
    if (turn - read.turn > READ_AGO_OPERATIONS) return false;
    this.#reads.delete(key);
    return true;
  }

  findings(): Finding[] {
    return [...this.#tables].flatMap(([table, { example, kinds }]): Finding | [] => {
      const found = kinds.findLast(({ after, all }) => after >= 5 && after >= all / 2);
      if (found === undefined) return [];
      const { after, all } = found;
      return {
        ...{ rule: "read-before-write", table, subject: "" },
        title: `${after} of ${all} writes were preceded by a read of the same entity`,
        evidence: [`for example a point query of ${example}, without the ETag that was read`],
        cost: `${after} requests that change nothing; another client may write between the read and the write.`,
        remedy: {
          pattern: "choosing the write verb",
          advice:
            "Use insert-or-merge or insert-or-replace, which work whether or not the entity exists; send the ETag if the old value matters.",
          layout: [`${nameOf(table)}: keys unchanged`],
        },
      };
    });
  }
}

/** Identifies a client and an entity; the lengths separate the parts unambiguously. */
function entityOf(event: TrafficEvent, partitionKey: string, rowKey: string): string {
  const lengths = `${event.client.length},${partitionKey.length}`;
  return `${lengths} ${event.client}${tableOf(event)}/${partitionKey}${rowKey}`;
}

export function findLargeValues({ data }: Observed): Finding[] {
  return [...data].flatMap(([table, { samples }]): Finding | [] => {
    const large = samples.filter(({ bytes }) => bytes > 128 * 1024);
    if (large.length === 0 || large.length < samples.length / 10) return [];
    const [first] = large;
    return {
      ...{ rule: "large-values", table, subject: "" },
      title: `${large.length} of ${samples.length} entities inspected are larger than 128 KiB`,
      evidence: [`for example ${first!.partitionKey}/${first!.rowKey}, ${first!.bytes} bytes`],
      cost: "Each query of such an entity transfers all of it; a transaction holds at most 4 MiB.",
      remedy: {
        pattern: "large values in blobs",
        advice: "Store the large value in a blob, and the blob's name in the entity.",
        layout: [
          `container ${nameOf(table).toLowerCase()}: <PartitionKey>/<RowKey>/<property>`,
          `${nameOf(table)}: keys unchanged, <property>Blob = the blob's name`,
        ],
      },
    };
  });
}
