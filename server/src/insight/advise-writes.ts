import {
  counted,
  type Finding,
  groupBy,
  nameOf,
  type Observed,
  sumOf,
  tableOf,
  writesOf,
} from "./advice.ts";
import { AZURE_TARGETS, AzureTargets } from "./azure-targets.ts";
import { InsertOrder } from "./insert-order.ts";
import type { QueryFacts } from "./insight.ts";
import type { RecordedMutation, TrafficEvent, WriteEvent } from "./recording.ts";

/** The recording, judged by the cloud's targets as it happened. */
export function findOverTargets({ events }: Observed): Finding[] {
  const targets = new AzureTargets("what-if");
  for (const event of events) {
    if (event.kind === "query") {
      const query = queryFacts(event);
      targets.admitQuery(query);
      targets.queried(query, {
        ...{ entitiesRead: event.read, entitiesReturned: event.returned },
        ...{ bytesRead: event.bytes, engineMicros: 0 },
      });
    } else {
      const mutations = event.mutations.map(({ kind, rowKey }) => ({
        ...{ kind, rowKey, ifMatch: undefined },
      }));
      targets.admitWrite({ ...event, mutations });
    }
  }
  return targets.report().places.map(({ where, code, count, firstAt }) => ({
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

function queryFacts(event: TrafficEvent & { readonly kind: "query" }): QueryFacts {
  const plan = { class: event.class, reads: [], residual: undefined, rowKeys: undefined };
  return { ...event, plan, planText: "" };
}

/** Half of what a partition may do in the cloud, in some second. */
export function findHotPartitions({ events }: Observed): Finding[] {
  const seconds = new Map<string, number>();
  const peaks = new Map<string, number>();
  for (const event of events) {
    if (event.partitionKey === undefined) continue;
    const entities = event.kind === "query" ? Math.max(event.read, 1) : event.mutations.length;
    const partition = `${tableOf(event)}/${event.partitionKey}`;
    const key = `${Math.floor(event.at / 1000)} ${partition}`;
    const sum = (seconds.get(key) ?? 0) + entities;
    seconds.set(key, sum);
    if (sum > (peaks.get(partition) ?? 0)) peaks.set(partition, sum);
  }
  const hot = [...peaks].filter(([, peak]) => peak >= AZURE_TARGETS.partition / 2);
  const tables = groupBy(hot, ([partition]) => partition.split("/").slice(0, 2).join("/"));
  return [...tables].map(([table, partitions]) => ({
    ...{ rule: "hot-partition", table, subject: "" },
    title: `${counted(partitions.length, "partition")} carried ${AZURE_TARGETS.partition / 2} entities or more in a second`,
    evidence: partitions
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

export function findAppendOnlyKeys(observed: Observed): Finding[] {
  const orders = new Map<string, { order: InsertOrder; inserts: number }>();
  for (const write of writesOf(observed)) {
    for (const { kind, condition } of write.mutations) {
      if (kind === "delete" || condition !== "none") continue;
      const table = tableOf(write);
      const known = orders.get(table) ?? { order: new InsertOrder(), inserts: 0 };
      known.inserts++;
      known.order.add(write.partitionKey);
      orders.set(table, known);
    }
  }
  return [...orders].flatMap(([table, { order, inserts }]): Finding[] => {
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

function spreadLayout(table: string): string {
  return `${table}: PartitionKey = <hash of the entity's id modulo 16, two digits>_<the key of today>, RowKey as it is`;
}

const RUN_MIN = 10;
const RUN_GAP_MS = 1000;

/** Runs of single writes into one partition, of another entity each, that a transaction could have carried. */
export function findSingleWrites(observed: Observed): Finding[] {
  const runs: WriteEvent[][] = [];
  const end = (run: WriteEvent[]) => {
    if (run.length >= RUN_MIN) runs.push(run);
  };
  for (const writes of groupBy(writesOf(observed), ({ client }) => client).values()) {
    let run: WriteEvent[] = [];
    let rowKeys = new Set<string>();
    for (const write of writes) {
      const last = run.at(-1);
      const [{ rowKey } = { rowKey: "" }] = write.mutations;
      const goesOn =
        write.mutations.length === 1 &&
        !rowKeys.has(rowKey) &&
        last?.partitionKey === write.partitionKey &&
        tableOf(last) === tableOf(write) &&
        write.at - last.at <= RUN_GAP_MS;
      if (!goesOn) {
        end(run);
        run = [];
        rowKeys = new Set();
      }
      if (write.mutations.length === 1) {
        run.push(write);
        rowKeys.add(rowKey);
      }
    }
    end(run);
  }
  return [...groupBy(runs, (run) => tableOf(run[0]!))].flatMap(([table, found]): Finding[] => {
    const writes = sumOf(found, (run) => run.length);
    if (found.length < 3 && writes < 50) return [];
    return [
      {
        ...{ rule: "single-writes", table, subject: "" },
        title: `${writes} entities were written one by one in ${counted(found.length, "run")}, each into one partition`,
        evidence: [`for example ${found[0]!.length} writes into ${found[0]![0]!.partitionKey}`],
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

const READ_AGO_MS = 5000;
const CLIENT_READS_MAX = 10_000;

/** Point queries whose only use was to choose between insert and update, or to fill an upsert. */
export function findReadBeforeWrite(observed: Observed): Finding[] {
  const reads = new Map<string, number>();
  const tables = new Map<string, { after: number; writes: number; example: string }>();
  for (const event of observed.events) {
    if (event.kind === "query") {
      if (event.rowKey === undefined) continue;
      if (reads.size >= CLIENT_READS_MAX) reads.clear();
      reads.set(entityOf(event, event.partitionKey ?? "", event.rowKey), event.at);
      continue;
    }
    for (const mutation of event.mutations) {
      if (!decidesItself(mutation)) continue;
      const key = entityOf(event, event.partitionKey, mutation.rowKey);
      const table = tableOf(event);
      const counts = tables.get(table) ?? { after: 0, writes: 0, example: "" };
      counts.writes++;
      const readAt = reads.get(key);
      if (readAt !== undefined && event.at - readAt <= READ_AGO_MS) {
        counts.after++;
        counts.example = `${event.partitionKey}/${mutation.rowKey}, then ${mutation.kind}`;
        reads.delete(key);
      }
      tables.set(table, counts);
    }
  }
  return [...tables].flatMap(([table, { after, writes, example }]): Finding[] => {
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

/** Inserts and unconditional writes do what they do whatever a read had said. */
function decidesItself({ kind, condition }: RecordedMutation): boolean {
  return kind !== "delete" && condition !== "exact";
}

function entityOf(event: TrafficEvent, partitionKey: string, rowKey: string): string {
  return JSON.stringify([event.client, tableOf(event), partitionKey, rowKey]);
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
