import { LIMITS } from "@rowhouse/protocol/limits";
import {
  counted,
  type Finding,
  getOrMake,
  groupBy,
  nameOf,
  type Observed,
  type Rule,
  tableOf,
} from "./advice.ts";
import { AZURE_TARGETS, AzureTargets } from "./azure-targets.ts";
import { InsertOrder } from "./insert-order.ts";
import { countedEntities } from "./insight.ts";
import { partitionName } from "./partition-names.ts";
import type { QueryEvent, RecordedMutation, TrafficEvent, WriteEvent } from "./recording.ts";
import { timeKeyOf } from "./time-key.ts";

/** The recording, judged by the cloud's targets as it happened. */
export class OverTargets implements Rule {
  readonly #targets = new AzureTargets("what-if");

  queried(query: QueryEvent): void {
    this.#targets.admitQuery(query);
    this.#targets.queried(query, { entitiesRead: query.read });
  }

  wrote(write: WriteEvent): void {
    this.#targets.admitWrite(write);
  }

  findings(): Finding[] {
    return this.#targets.report().places.map(({ where, code, count, firstAt }) => ({
      rule: "over-targets",
      table: where.split("/").slice(0, 2).join("/"),
      subject: `${code} ${where}`,
      title: `The cloud would have answered ${code} ${counted(count, "time")} at ${where}`,
      evidence: [`first at ${new Date(firstAt).toISOString()}`],
      cost: "Each refusal is a wait of seconds in the client, and a retry.",
      cure: {
        pattern: "key spreading",
        advice: where.includes("/")
          ? "Spread this partition's entities over several partition keys."
          : "Spread the load over time, or over several accounts.",
        layout: where.includes("/") ? [spreadLayout(where.split("/")[1]!)] : [],
      },
    }));
  }
}

/** Operations are told when they end, with the time of their beginning: none takes longer. */
const SECONDS_LATE_MAX = 30;

interface SecondOfPartition {
  entities: number;
  /** Writes, and queries whatever their pages: what one list reads is no traffic yet. */
  requests: number;
}

/** Half of what a partition may do in the cloud, in some second. */
export class HotPartitions implements Rule {
  /** The last seconds by partition. */
  readonly #seconds = new Map<number, Map<string, SecondOfPartition>>();
  readonly #peaks = new Map<string, number>();

  queried(query: QueryEvent): void {
    if (query.partitionKey === undefined) return;
    const requests = query.continued ? 0 : 1;
    this.#count(query, query.partitionKey, { entities: countedEntities(query.read), requests });
  }

  wrote(write: WriteEvent): void {
    const { mutations, partitionKey } = write;
    this.#count(write, partitionKey, { entities: mutations.length, requests: 1 });
  }

  #count(event: TrafficEvent, partitionKey: string, more: SecondOfPartition): void {
    const { at, account, table } = event;
    const second = Math.floor(at / 1000);
    let partitions = this.#seconds.get(second);
    if (partitions === undefined) {
      partitions = new Map();
      this.#seconds.set(second, partitions);
      for (const each of this.#seconds.keys()) {
        if (each < second - SECONDS_LATE_MAX) this.#seconds.delete(each);
      }
    }
    const partition = partitionName(account, table, partitionKey);
    const sum = getOrMake(partitions, partition, () => ({ entities: 0, requests: 0 }));
    sum.entities += more.entities;
    sum.requests += more.requests;
    if (sum.entities < AZURE_TARGETS.partition / 2 || sum.requests < 2) return;
    const peak = this.#peaks.get(partition) ?? 0;
    if (sum.entities > peak) this.#peaks.set(partition, sum.entities);
  }

  findings(): Finding[] {
    const tables = groupBy(this.#peaks, ([partition]) =>
      partition.split("/").slice(0, 2).join("/"),
    );
    return [...tables].map(([table, partitions]) => ({
      ...{ rule: "hot-partition", table, subject: "" },
      title: `${counted(partitions.length, "partition")} carried ${AZURE_TARGETS.partition / 2} entities or more in a second`,
      evidence: partitions
        .sort(([, a], [, b]) => b - a)
        .slice(0, 3)
        .map(([name, peak]) => `${name}: ${peak} in its busiest second`),
      cost: `The cloud's target is ${AZURE_TARGETS.partition} a second for a partition.`,
      cure: {
        pattern: "key spreading",
        advice: "Choose a partition key with more values, or spread this one.",
        layout: [spreadLayout(nameOf(table))],
      },
    }));
  }
}

export class AppendOnlyKeys implements Rule {
  readonly #tables = new Map<string, { order: InsertOrder; inserts: number }>();

  wrote(write: WriteEvent): void {
    for (const mutation of write.mutations) {
      if (!isInsert(mutation)) continue;
      const none = () => ({ order: new InsertOrder(), inserts: 0 });
      const known = getOrMake(this.#tables, tableOf(write), none);
      known.inserts++;
      known.order.add(write.partitionKey, write.at);
    }
  }

  findings(): Finding[] {
    return [...this.#tables].flatMap(([table, { order, inserts }]): Finding | [] => {
      const { verdict, examples, isByTime } = order;
      if (verdict !== "append" && verdict !== "prepend") return [];
      const end = verdict === "append" ? "end" : "beginning";
      return {
        ...{ rule: "append-only-keys", table, subject: "" },
        title: isByTime
          ? `New entities go to the partition of their time, at the ${end} of the table`
          : `Every new partition key lands at the ${end} of the table`,
        evidence: [`${inserts} inserts`, `keys such as ${examples.join(", ")}`],
        cost: "All inserts meet in the one range of partitions that is served last; adding machines does not help.",
        cure: {
          pattern: "key spreading",
          advice: "Put a bucket in front of the key, and read all buckets side by side.",
          layout: [
            spreadLayout(nameOf(table)),
            "query: one for each bucket, in parallel, merged by key",
          ],
        },
      };
    });
  }
}

const ONE_PARTITION_INSERTS_MIN = 64;
const ONE_PARTITION_ENTITIES_MIN = 1000;

/** A table that grows in one partition, which is all it has. One by the time has another at another time. */
export class OnePartition implements Rule {
  /** The partition of all inserts by table; undefined where there are several. */
  readonly #tables = new Map<string, { only: string | undefined; inserts: number }>();

  wrote(write: WriteEvent): void {
    const { at, mutations, partitionKey } = write;
    const inserts = mutations.filter(isInsert).length;
    if (inserts === 0) return;
    const only = timeKeyOf(partitionKey, at) === undefined ? partitionKey : undefined;
    const known = getOrMake(this.#tables, tableOf(write), () => ({ only, inserts: 0 }));
    known.inserts += inserts;
    if (known.only !== partitionKey) known.only = undefined;
  }

  findings({ data }: Observed): Finding[] {
    return [...this.#tables].flatMap(([table, { inserts, only }]): Finding | [] => {
      const { entities = 0, onlyPartition } = data.get(table) ?? {};
      if (only === undefined || inserts < ONE_PARTITION_INSERTS_MIN) return [];
      if (entities < ONE_PARTITION_ENTITIES_MIN || onlyPartition !== only) return [];
      return {
        ...{ rule: "one-partition", table, subject: "" },
        title: `All of the table is in partition ${JSON.stringify(only)}`,
        evidence: [`${inserts} inserts into it, and ${entities} entities looked at`],
        cost: `One partition is served by one machine of the cloud: ${AZURE_TARGETS.partition} entities a second for all of the table, however large it grows.`,
        cure: {
          pattern: "partition key for the query",
          advice:
            "Choose what is read together and changed together, such as a customer or a device, as the partition key; where nothing is, spread the entities.",
          layout: [
            `${nameOf(table)}: PartitionKey = <what is read and changed together>, RowKey as it is`,
            `or ${spreadLayout(nameOf(table))}`,
          ],
        },
      };
    });
  }
}

/** Upserts may be. */
function isInsert({ kind, condition }: RecordedMutation): boolean {
  return kind !== "delete" && condition === "none";
}

function spreadLayout(table: string): string {
  return `${table}: PartitionKey = <hash of the entity's id modulo 16, two digits>_<the key of today>, RowKey as it is`;
}

const RUN_MIN = 10;
/** What waits longer for the next came one by one: messages of people, readings of a device. */
const RUN_GAP_MS = 100;

/** Single writes of a client into one partition, one after another and of another entity each. */
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

  /** Whether a write is one more of this run; then it is counted. */
  takes({ account, at, mutations, partitionKey, table }: WriteEvent): boolean {
    const [only] = mutations;
    if (only === undefined || mutations.length > 1 || this.#rowKeys.has(only.rowKey)) return false;
    const { first } = this;
    if (first.partitionKey !== partitionKey || at - this.#lastAt > RUN_GAP_MS) return false;
    if (first.table !== table || first.account !== account) return false;
    this.#rowKeys.add(only.rowKey);
    this.#lastAt = at;
    return true;
  }
}

interface Runs {
  runs: number;
  writes: number;
  /** That could have carried them. */
  transactions: number;
  readonly example: string;
}

/** Runs of single writes into one partition, of another entity each, that a transaction could have carried. */
export class SingleWrites implements Rule {
  /** The last of each client, which may go on. */
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
    const example = `${length} writes into ${first.partitionKey}`;
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
        title: `${writes} entities were written one by one in ${counted(runs, "run")}, each into one partition`,
        evidence: [`for example ${example}`],
        cost: `${writes} requests and flushes; ${counted(transactions, "transaction")} would do.`,
        cure: {
          pattern: "entity group transactions",
          advice: "Send writes of one partition together, up to 100 in a transaction.",
          layout: [],
        },
      };
    });
  }
}

const READ_AGO_MS = 5000;
/** So many operations of the client may come between: what others wait for at the same time. */
const READ_AGO_OPERATIONS = 64;
const CLIENT_READS_MAX = 10_000;

/** Writes of a table, and how many of them came soon after a read of the same entity. */
class WritesAfterReads {
  inserts = 0;
  insertsAfter = 0;
  /** Unconditional ones: what had been read makes no difference to them. */
  updates = 0;
  updatesAfter = 0;
  /** With the ETag that was read. */
  exactAfter = 0;
  example = "";

  /** Who updates what was read inserts what was not there: such reads are for the update. */
  get areForUpdates(): boolean {
    return this.exactAfter > 0;
  }

  get all(): number {
    return this.updates + (this.areForUpdates ? 0 : this.inserts);
  }

  get after(): number {
    return this.updatesAfter + (this.areForUpdates ? 0 : this.insertsAfter);
  }
}

/** Point queries whose only use was to choose between insert and update, or to fill an upsert. */
export class ReadBeforeWrite implements Rule {
  /** When entities were read last, and as which operation of the client. */
  readonly #reads = new Map<string, { readonly at: number; readonly turn: number }>();
  /** Operations by client. */
  readonly #turns = new Map<string, number>();
  readonly #tables = new Map<string, WritesAfterReads>();

  queried(query: QueryEvent): void {
    const { at, partitionKey = "", rowKey } = query;
    const turn = this.#turnOf(query);
    if (rowKey === undefined) return;
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

  /** Whether the entity was read a moment ago. A read is good for one write. */
  #takeRead(write: WriteEvent, { rowKey }: RecordedMutation, turn: number): boolean {
    const key = entityOf(write, write.partitionKey, rowKey);
    const read = this.#reads.get(key);
    if (read === undefined || write.at - read.at > READ_AGO_MS) return false;
    if (turn - read.turn > READ_AGO_OPERATIONS) return false;
    this.#reads.delete(key);
    return true;
  }

  findings(): Finding[] {
    return [...this.#tables].flatMap(([table, { after, all, example }]): Finding | [] => {
      if (after < 5 || after < all / 2) return [];
      return {
        ...{ rule: "read-before-write", table, subject: "" },
        title: `${after} of ${all} writes were preceded by a read of the same entity`,
        evidence: [`for example a point query of ${example}, without the ETag that was read`],
        cost: `${after} requests that change nothing; and between the two, somebody else may write.`,
        cure: {
          pattern: "choosing the write verb",
          advice:
            "Insert-or-merge (or insert-or-replace) writes whether the entity is there or not; send the ETag where the old value matters.",
          layout: [`${nameOf(table)}: keys as they are`],
        },
      };
    });
  }
}

/** Who read or wrote which entity: the lengths tell where one key ends and the next begins. */
function entityOf(event: TrafficEvent, partitionKey: string, rowKey: string): string {
  const lengths = `${event.client.length},${partitionKey.length}`;
  return `${lengths} ${event.client}${tableOf(event)}/${partitionKey}${rowKey}`;
}

export function findLargeValues({ data }: Observed): Finding[] {
  return [...data].flatMap(([table, { samples }]): Finding | [] => {
    const large = samples.filter(({ bytes }) => bytes >= 128 * 1024);
    if (large.length === 0 || large.length < samples.length / 10) return [];
    const [first] = large;
    return {
      ...{ rule: "large-values", table, subject: "" },
      title: `${large.length} of ${samples.length} entities looked at are larger than 128 KiB`,
      evidence: [`for example ${first!.partitionKey}/${first!.rowKey}, ${first!.bytes} bytes`],
      cost: "Each query of such an entity moves all of it; a transaction holds 4 MiB.",
      cure: {
        pattern: "large values in blobs",
        advice: "Keep the large value in a blob and its name in the entity.",
        layout: [
          `container ${nameOf(table).toLowerCase()}: <PartitionKey>/<RowKey>/<property>`,
          `${nameOf(table)}: keys as they are, <property>Blob = the blob's name`,
        ],
      },
    };
  });
}
