import { readFileSync } from "node:fs";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { BenchProcess } from "../../bench/harness/bench-process.ts";
import {
  type Dataset,
  PARTITION_ENTITIES,
  partitionKey,
  rowKey,
} from "../../bench/load/dataset.ts";
import { fillTransactions } from "../../bench/load/fill.ts";
import type { LoadCommand, LoadResult } from "../../bench/load/load-process.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { TableWire } from "../wire/table-wire.ts";

export interface OrderedScan {
  readonly entities: number;
  readonly pages: number;
  readonly milliseconds: number;
  /** Private memory of the front end in KiB (RssAnon), before the first request. */
  readonly memoryAtStartKb: number;
  /** The same after each page. */
  readonly memoryKb: readonly number[];
}

/**
 * Fills a table through one front end and lists it, all partitions in order, through another that has served
 * nothing else. Every entity must be returned, in its place.
 */
export function scanInOrder(entities: number, say: (what: string) => void): Promise<OrderedScan> {
  return withFolder(async (folder) => {
    const database = await LocalServer.create();
    // The disk does not matter here, only the front end's memory.
    database.configure({ fsync: "off", max_wal_size: "4GB" });
    await database.start();
    const fronts: RowhouseProcess[] = [];
    try {
      const url = await database.createDatabase();
      const flags = ["--silent", "--engine", url, "--allowUnsafeEngine"];
      fronts.push(await startRowhouse(folder, flags), await startRowhouse(folder, flags));
      const [filler, reader] = fronts as [RowhouseProcess, RowhouseProcess];
      const dataset = { table: "entities", entities };
      const filledAt = performance.now();
      await fill(filler, dataset);
      say(`filled with ${entities} entities in ${seconds(filledAt)} s`);
      await filler.stop();
      return await list(reader, dataset, say);
    } finally {
      await Promise.all(fronts.map((front) => front.kill()));
      await database.remove();
    }
  });
}

export async function fill(front: RowhouseProcess, dataset: Dataset): Promise<void> {
  const wire = wireOf(front);
  const created = await wire.send("POST", "/Tables", { body: { TableName: dataset.table } });
  wire.close();
  if (created.status !== 201) throw new Error(String(created));
  const module = new URL("../../bench/load/load-process.ts", import.meta.url);
  const load = await BenchProcess.start<LoadCommand, LoadResult>(module, "client");
  try {
    const { hostname: host, port } = new URL(front.tableUrl);
    const { failures, firstFailure } = await load.ask({
      target: {
        service: "table",
        host,
        port: Number(port),
        account: "devstoreaccount1",
        keyBase64: keyOf(front),
      },
      workload: { kind: "fill", order: "sorted", firstTransaction: 0 },
      dataset,
      run: 0,
      connections: 4,
      until: { operations: fillTransactions(dataset.entities) },
      serverPid: front.pid,
    });
    if (failures > 0) throw new Error(firstFailure);
  } finally {
    await load.stop();
  }
}

export async function list(
  front: RowhouseProcess,
  { table, entities }: Dataset,
  say: (what: string) => void,
): Promise<OrderedScan> {
  const wire = wireOf(front);
  const memoryAtStartKb = privateKb(front.pid);
  const memoryKb: number[] = [];
  const startedAt = performance.now();
  let seen = 0;
  for (let next = ""; seen === 0 || next !== ""; ) {
    const page = await wire.send("GET", `/${table}()?$select=PartitionKey,RowKey,Notes${next}`);
    for (const { PartitionKey, RowKey } of page.items()) {
      if (PartitionKey !== partitionKey(seen) || RowKey !== rowKey(seen)) {
        throw new Error(`Entity ${seen} is ${PartitionKey}, ${RowKey}.`);
      }
      seen++;
    }
    memoryKb.push(privateKb(front.pid));
    if (seen % (10 * PARTITION_ENTITIES) === 0) {
      say(`${seen} after ${seconds(startedAt)} s, ${Math.round(memoryKb.at(-1)! / 1024)} MiB`);
    }
    const partition = page.header("x-ms-continuation-nextpartitionkey");
    const row = page.header("x-ms-continuation-nextrowkey");
    next = partition ? `&NextPartitionKey=${partition}${row ? `&NextRowKey=${row}` : ""}` : "";
  }
  wire.close();
  if (seen !== entities) throw new Error(`${seen} entities came, not ${entities}.`);
  const milliseconds = performance.now() - startedAt;
  return { entities, pages: memoryKb.length, milliseconds, memoryAtStartKb, memoryKb };
}

export function wireOf(front: RowhouseProcess): TableWire {
  const url = `${front.tableUrl}/devstoreaccount1`;
  return new TableWire({ url, account: "devstoreaccount1", key: keyOf(front) });
}

function keyOf({ connectionString }: RowhouseProcess): string {
  return /AccountKey=([^;]+)/.exec(connectionString)![1]!;
}

/** From Linux's /proc; 0 elsewhere. */
function privateKb(pid: number): number {
  try {
    return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  } catch {
    return 0;
  }
}

function seconds(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1);
}
