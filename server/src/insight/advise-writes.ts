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
        portable: true,
      },
    }));
  }
}

/** Operations are told when they end, with the time of their beginning: none takes longer. */
const SECONDS_LATE_MAX = 30;

/** Half of what a partition may do in the cloud, in some second. */
export class HotPartitions implements Rule {
  /** Entities of the last seconds by partition. */
  readonly #seconds = new Map<number, Map<string, number>>();
  readonly #peaks = new Map<string, number>();

  queried(query: QueryEvent): void {
    if (query.partitionKey === undefined) return;
    this.#count(query, query.partitionKey, countedEntities(query.read));
  }

  wrote(write: WriteEvent): void {
    this.#count(write, write.partitionKey, write.mutations.length);
  }

  #count({ at, account, table }: TrafficEvent, partitionKey: string, entities: number): void {
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
    const sum = (partitions.get(partition) ?? 0) + entities;
    partitions.set(partition, sum);
    if (sum < AZURE_TARGETS.partition / 2) return;
    if (sum > (this.#peaks.get(partition) ?? 0)) this.#peaks.set(partition, sum);
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
        portable: true,
      },
    }));
  }
}

export class AppendOnlyKeys implements Rule {
  readonly #tables = new Map<string, { order: InsertOrder; inserts: number }>();

  wrote(write: WriteEvent): void {
    for (const { kind, condition } of write.mutations) {
      if (kind === "delete" || condition !== "none") continue;
      const none = () => ({ order: new InsertOrder(), inserts: 0 });
      const known = getOrMake(this.#tables, tableOf(write), none);
      known.inserts++;
      known.order.add(write.partitionKey);
    }
  }

  findings(): Finding[] {
    return [...this.#tables].flatMap(([table, { order, inserts }]): Finding[] => {
      const { verdict, examples } = order;
      if (verdict !== "append" && verdict !== "prepend") return [];
      const end = verdict === "append" ? "end" : "beginning";
      return [
        {
          ...{ rule: "append-only-keys", table, subject: "" },
          title: `Every new partition key lands at the ${end} of the table`,
          evidence: [`${inserts} inserts`, `keys such as ${examples.join(", ")}`],
          cost: "All inserts meet in the one range of partitions that is served last; adding machines does not help.",
          cure: {
            pattern: "key spreading",
            advice: "Put a bucket in front of the key, and read all buckets side by side.",
            layout: [
              spreadLayout(nameOf(table)),
              "query: one for each bucket, in parallel, merged by key",
            ],
            portable: true,
          },
        },
      ];
    });
  }
}

function spreadLayout(table: string): string {
  return `${table}: PartitionKey = <hash of the entity's id modulo 16, two digits>_<the key of today>, RowKey as it is`;
}

const RUN_MIN = 10;
const RUN_GAP_MS = 1000;

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
  readonly example: string;
}

/** Runs of single writes into one partition, of another entity each, that a transaction could have carried. */
export class SingleWrites implements Rule {
  /** By client; what was found by table. */
  readonly #clients = new Map<string, { run: WriteRun | undefined; found: Map<string, Runs> }>();

  wrote(write: WriteEvent): void {
    const none = () => ({ run: undefined, found: new Map() });
    const client = getOrMake(this.#clients, write.client, none);
    if (client.run?.takes(write)) return;
    this.#end(client.run, client.found);
    const run = new WriteRun(write);
    client.run = run.takes(write) ? run : undefined;
  }

  #end(run: WriteRun | undefined, found: Map<string, Runs>): void {
    if (run === undefined || run.length < RUN_MIN) return;
    const { first, length } = run;
    const example = `${length} writes into ${first.partitionKey}`;
    const runs = getOrMake(found, tableOf(first), () => ({ runs: 0, writes: 0, example }));
    runs.runs++;
    runs.writes += length;
  }

  findings(): Finding[] {
    const tables = new Map<string, Runs>();
    for (const { run, found } of this.#clients.values()) {
      this.#end(run, found);
      for (const [table, runs] of found) {
        const sum = getOrMake(tables, table, () => ({ ...runs, runs: 0, writes: 0 }));
        sum.runs += runs.runs;
        sum.writes += runs.writes;
      }
    }
    return [...tables].flatMap(([table, { example, runs, writes }]): Finding[] => {
      if (runs < 3 && writes < 50) return [];
      return [
        {
          ...{ rule: "single-writes", table, subject: "" },
          title: `${writes} entities were written one by one in ${counted(runs, "run")}, each into one partition`,
          evidence: [`for example ${example}`],
          cost: `${writes} requests and flushes; transactions of 100 make ${Math.ceil(writes / 100)}.`,
          cure: {
            pattern: "entity group transactions",
            advice: "Send writes of one partition together, up to 100 in a transaction.",
            layout: [],
            portable: true,
          },
        },
      ];
    });
  }
}

const READ_AGO_MS = 5000;
const CLIENT_READS_MAX = 10_000;

/** Point queries whose only use was to choose between insert and update, or to fill an upsert. */
export class ReadBeforeWrite implements Rule {
  /** When entities were read last. */
  readonly #reads = new Map<string, number>();
  readonly #tables = new Map<string, { after: number; writes: number; example: string }>();

  queried(query: QueryEvent): void {
    const { at, partitionKey = "", rowKey } = query;
    if (rowKey === undefined) return;
    if (this.#reads.size >= CLIENT_READS_MAX) this.#reads.clear();
    this.#reads.set(entityOf(query, partitionKey, rowKey), at);
  }

  wrote(write: WriteEvent): void {
    for (const mutation of write.mutations) {
      if (!decidesItself(mutation)) continue;
      const none = () => ({ after: 0, writes: 0, example: "" });
      const counts = getOrMake(this.#tables, tableOf(write), none);
      counts.writes++;
      const key = entityOf(write, write.partitionKey, mutation.rowKey);
      const readAt = this.#reads.get(key);
      if (readAt === undefined || write.at - readAt > READ_AGO_MS) continue;
      counts.after++;
      counts.example = `${write.partitionKey}/${mutation.rowKey}, then ${mutation.kind}`;
      this.#reads.delete(key);
    }
  }

  findings(): Finding[] {
    return [...this.#tables].flatMap(([table, { after, writes, example }]): Finding[] => {
      if (after < 5 || after < writes / 2) return [];
      return [
        {
          ...{ rule: "read-before-write", table, subject: "" },
          title: `${after} of ${writes} writes were preceded by a read of the same entity`,
          evidence: [`for example a point query of ${example}, without the ETag that was read`],
          cost: `${after} requests that change nothing; and between the two, somebody else may write.`,
          cure: {
            pattern: "choosing the write verb",
            advice:
              "Insert-or-merge (or insert-or-replace) writes whether the entity is there or not; send the ETag where the old value matters.",
            layout: [`${nameOf(table)}: keys as they are`],
            portable: true,
          },
        },
      ];
    });
  }
}

/** Inserts and unconditional writes do what they do whatever a read had said. */
function decidesItself({ kind, condition }: RecordedMutation): boolean {
  return kind !== "delete" && condition !== "exact";
}

/** Who read or wrote which entity: the lengths tell where one key ends and the next begins. */
function entityOf(event: TrafficEvent, partitionKey: string, rowKey: string): string {
  const lengths = `${event.client.length},${partitionKey.length}`;
  return `${lengths} ${event.client}${tableOf(event)}/${partitionKey}${rowKey}`;
}

export function findLargeValues({ data }: Observed): Finding[] {
  return [...data].flatMap(([table, { samples }]): Finding[] => {
    const large = samples.filter(({ bytes }) => bytes >= 128 * 1024);
    if (large.length === 0 || large.length < samples.length / 10) return [];
    const [first] = large;
    return [
      {
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
          portable: true,
        },
      },
    ];
  });
}
