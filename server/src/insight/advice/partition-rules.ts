import { AZURE_TARGETS, AzureTargets } from "../azure-targets.ts";
import { InsertOrder } from "../insert-order.ts";
import { countedEntities, partitionName } from "../insight.ts";
import type { QueryEvent, RecordedMutation, TrafficEvent, WriteEvent } from "../recording.ts";
import { timeKeyOf } from "../time-key.ts";
import {
  counted,
  type Finding,
  getOrMake,
  groupBy,
  nameOf,
  type Observed,
  type Rule,
  tableOf,
} from "./rule.ts";

/** Judges the recording by the cloud's targets, in the order in which it happened. */
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
      table: tableOfPlace(where),
      subject: `${code} ${where}`,
      title: `The cloud would have answered ${code} ${counted(count, "time")} for ${where}`,
      evidence: [`first at ${new Date(firstAt).toISOString()}`],
      cost: "Each refusal costs the client seconds of waiting and a retry.",
      remedy: where.includes("/")
        ? {
            pattern: "key spreading",
            advice: "Spread the partition's entities over several partition keys.",
            layout: [spreadLayout(where.split("/")[1]!)],
          }
        : {
            // Other keys do not help: every entity of the account counts.
            pattern: "several accounts",
            advice: "Spread the load over time, or over several accounts.",
            layout: [],
          },
    }));
  }
}

/** A query is recorded when it ends, but with the time of its arrival. None takes longer than this. */
const SECONDS_LATE_MAX = 30;

interface SecondOfPartition {
  entities: number;
  /** Writes, and queries regardless of their number of pages: one list is not yet traffic. */
  requests: number;
}

/** Finds partitions that carry half of the cloud's target in any second. */
export class HotPartitions implements Rule {
  /** The most recent seconds, by partition. */
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
    const tables = groupBy(this.#peaks, ([partition]) => tableOfPlace(partition));
    return [...tables].map(([table, partitions]) => ({
      ...{ rule: "hot-partition", table, subject: "" },
      title: `${counted(partitions.length, "partition")} carried ${AZURE_TARGETS.partition / 2} entities or more in one second`,
      evidence: partitions
        .sort(([, a], [, b]) => b - a)
        .slice(0, 3)
        .map(([name, peak]) => `${name}: ${peak} in its busiest second`),
      cost: `The cloud's target for a partition is ${AZURE_TARGETS.partition} entities per second.`,
      remedy: {
        pattern: "key spreading",
        advice: "Choose a partition key with more values, or spread each value over several keys.",
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
          ? `New entities go to the partition of the current period, at the ${end} of the table`
          : `New partition keys always go to the ${end} of the table`,
        evidence: [`${inserts} inserts`, `keys such as ${examples.join(", ")}`],
        cost: `All inserts go to the range of partitions at the ${end}, which one server of the cloud handles; more servers do not help.`,
        remedy: {
          pattern: "key spreading",
          advice:
            "Prefix the partition key with a bucket, and query all buckets in parallel. Row keys may grow: within a partition an insert then takes this server a quarter less CPU than at scattered keys.",
          layout: [
            spreadLayout(nameOf(table)),
            "query: one per bucket, in parallel, merged by key",
          ],
        },
      };
    });
  }
}

const ONE_PARTITION_INSERTS_MIN = 64;
const ONE_PARTITION_ENTITIES_MIN = 1000;

/**
 * Finds a growing table that has only one partition. A key that is the current time does not count: it
 * changes.
 */
export class OnePartition implements Rule {
  /** By table, the partition of all inserts; undefined where there are several. */
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
        title: `The whole table is in partition ${JSON.stringify(only)}`,
        evidence: [`${inserts} inserts into it, ${entities} entities inspected`],
        cost: `The cloud serves a partition from one server: ${AZURE_TARGETS.partition} entities per second for the whole table, however large it grows.`,
        remedy: {
          pattern: "partition key for the query",
          advice:
            "Use as the partition key what is read and changed together, such as a customer or a device; if there is no such unit, spread the entities.",
          layout: [
            `${nameOf(table)}: PartitionKey = <what is read and changed together>, RowKey unchanged`,
            `or ${spreadLayout(nameOf(table))}`,
          ],
        },
      };
    });
  }
}

/** An upsert may be an insert. */
function isInsert({ kind, condition }: RecordedMutation): boolean {
  return kind !== "delete" && condition === "none";
}

/** The table of `account/table/partition key`; an account is returned as it is. */
function tableOfPlace(place: string): string {
  return place.split("/").slice(0, 2).join("/");
}

function spreadLayout(table: string): string {
  return `${table}: PartitionKey = <hash of the entity's id modulo 16, two digits>_<current PartitionKey>, RowKey unchanged`;
}
