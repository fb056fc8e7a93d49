/**
 * What a Citus cluster of a coordinator and two workers reaches, as ratios of one run, so that they hold on a machine with
 * other work, too:
 *
 *   npm run cluster-reach [-- entities]     default: 1,000,000
 *
 * The last lines are scans of so many entities, next to one server of the same installation, which take longest.
 */
import { explainPostgres } from "@rowhouse/server/engine/postgres/explain";
import {
  assertDistributed,
  citusBinaries,
  LocalCluster,
  NO_CLUSTER,
} from "@rowhouse/server/engine/postgres/test-cluster";
import { LocalServer, runAt } from "@rowhouse/server/engine/postgres/test-server";
import { rowKey } from "../../bench/load/dataset.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { sendChangeset } from "../wire/table-batch.ts";
import type { TableWire } from "../wire/table-wire.ts";
import { fill, list, wireOf } from "./ordered-scan.ts";

const PARTITIONS = 32;
const REQUESTS = 4_000;
const CLIENTS = 4;
const GROWN_BY = 200_000;

if (NO_CLUSTER !== undefined || process.env.CITUS_URL !== undefined) {
  console.error(NO_CLUSTER ?? "The workers of CITUS_URL are not for killing: leave it out.");
  process.exit(2);
}
const entities = Number(process.argv[2] ?? 1_000_000);
let hasMissed = false;

function report(what: string, value: number, most: number): void {
  const isReached = value <= most;
  hasMissed ||= !isReached;
  console.log(`${isReached ? "reached" : "MISSED "} ${what}: ${value.toFixed(2)}, at most ${most}`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

const partition = (n: number) => `spread${String(n).padStart(3, "0")}`;
const pathOf = (n: number, row = "r") => `/Spread(PartitionKey='${partition(n)}',RowKey='${row}')`;
const JSON_BODY = { "Content-Type": "application/json" };

async function ask(wire: TableWire, ...request: Parameters<TableWire["send"]>): Promise<number> {
  const startedAt = performance.now();
  const answer = await wire.send(...request);
  if (answer.status >= 300) throw new Error(String(answer));
  return performance.now() - startedAt;
}

/** Rounds of point reads over the partitions, every fourth of upserts; returns the time of each in milliseconds. */
async function load(front: RowhouseProcess, over: readonly number[]): Promise<number[]> {
  const times: number[] = [];
  const client = async () => {
    const wire = wireOf(front);
    while (times.length < REQUESTS) {
      const slot = times.push(0) - 1;
      const path = pathOf(over[slot % over.length]!);
      const isWrite = Math.floor(slot / over.length) % 4 === 0;
      const body = isWrite ? { body: { n: 1 } } : {};
      times[slot] = await ask(wire, isWrite ? "PUT" : "GET", path, body);
    }
    wire.close();
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return times;
}

/** Transactions of each worker for one request to a partition of its own. */
async function spread(cluster: LocalCluster, url: string, front: RowhouseProcess): Promise<void> {
  const counts = () =>
    Promise.all(
      cluster.workers.map(async (worker) => {
        const [[count] = []] = await worker.run(
          "SELECT pg_sleep(2)", // Processes report what they did when they have been idle for a second.
          `SELECT xact_commit FROM pg_stat_database WHERE datname = '${new URL(url).pathname.slice(1)}'`,
        );
        return Number(count);
      }),
    );
  const own = await partitionsByWorker(cluster, url);
  const before = await counts();
  await load(
    front,
    Array.from({ length: PARTITIONS }, (_, n) => n),
  );
  const rates = (await counts()).map(
    (count, worker) => (count - before[worker]!) / ((REQUESTS * own[worker]!.length) / PARTITIONS),
  );
  console.log(
    `transactions of each worker per request: ${rates.map((rate) => rate.toFixed(2)).join(", ")}`,
  );
  report("the busiest worker's over the other's", Math.max(...rates) / Math.min(...rates), 1.1);
}

async function partitionsByWorker(cluster: LocalCluster, url: string): Promise<number[][]> {
  const rows = await runAt(url, [
    "SELECT k.name, p.nodeport FROM (SELECT DISTINCT pk, convert_from(substring(pk FROM position('spread' IN pk) FOR 9), 'UTF8') AS name " +
      "FROM rh_kv WHERE position('spread' IN pk) > 0) AS k JOIN pg_dist_shard_placement AS p " +
      "ON p.shardid = get_shard_id_for_distribution_column('rh_kv', k.pk)",
  ]);
  return cluster.workers.map(({ port }) =>
    rows.filter(([, at]) => Number(at) === port).map(([name]) => Number(String(name).slice(6))),
  );
}

async function loseWorker(cluster: LocalCluster, url: string, front: RowhouseProcess) {
  const [kept] = await partitionsByWorker(cluster, url);
  const p99 = (times: number[]) => times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)]!;
  const before = p99(await load(front, kept!));
  const lost = cluster.workers[1]!;
  const under = load(front, kept!);
  await lost.stop("immediate");
  await under;
  const after = p99(await load(front, kept!));
  await lost.start();
  console.log(
    "no request to the other worker's partitions failed as a worker was killed, and none while it was away",
  );
  report("their p99 while it is away over that before", after / before, 2);
}

/** A partition that has grown unseen: what its point reads and conditional writes take, and what `engine explain` says. */
async function grow(url: string, front: RowhouseProcess): Promise<void> {
  const wire = wireOf(front);
  const times = async () => {
    const reads: number[] = [];
    const updates: number[] = [];
    const transactions: number[] = [];
    for (let turn = 0; turn < 200; turn++) {
      reads.push(await ask(wire, "GET", pathOf(0)));
      const etagged = async () => {
        const etag = (await wire.send("GET", pathOf(0))).header("etag");
        return { "If-Match": etag ?? "" };
      };
      const body = { n: turn };
      updates.push(await ask(wire, "PUT", pathOf(0), { body, headers: await etagged() }));
      const calls = [
        { method: "PUT", path: pathOf(0), headers: await etagged(), body },
        { method: "PUT", path: pathOf(0, "other"), body },
      ].map((call) => ({ ...call, headers: { ...call.headers, ...JSON_BODY } }));
      const startedAt = performance.now();
      const answer = await sendChangeset(wire, calls);
      transactions.push(performance.now() - startedAt);
      if (!/HTTP\/1\.1 204/.test(answer.text)) throw new Error(String(answer));
    }
    return [reads, updates, transactions].map(median);
  };
  await runAt(url, ["ANALYZE rh_kv"]);
  await times();
  const before = await times();
  await runAt(url, [
    `INSERT INTO rh_kv SELECT pk, '\\xff'::bytea || int4send(i), 1, 'v' FROM (SELECT pk FROM rh_kv WHERE position('${partition(0)}' IN pk) > 0 LIMIT 1) AS one, generate_series(1, ${GROWN_BY}) AS i`,
  ]);
  const after = await times();
  wire.close();
  const what = ["a point read", "a conditional update", "a conditional transaction"];
  for (const [index, name] of what.entries()) {
    report(`${name} after ${GROWN_BY} more rows over before`, after[index]! / before[index]!, 2);
  }
  const flawed = (await explainPostgres({ url })).filter(({ problems }) => problems.length > 0);
  report("statements of which engine explain has something to say", flawed.length, 0);
}

async function findRow(front: RowhouseProcess, table: string): Promise<number> {
  const wire = wireOf(front);
  const startedAt = performance.now();
  const filter = encodeURIComponent(`RowKey eq '${rowKey(7)}'`);
  let found = 0;
  for (let next: string | undefined = ""; next !== undefined; ) {
    const page = await wire.send("GET", `/${table}()?$filter=${filter}${next}`);
    found += page.items().length;
    const at = page.header("x-ms-continuation-nextpartitionkey");
    const row = page.header("x-ms-continuation-nextrowkey");
    next = at && `&NextPartitionKey=${at}${row ? `&NextRowKey=${row}` : ""}`;
  }
  wire.close();
  if (found === 0) throw new Error("No entity was found.");
  return performance.now() - startedAt;
}

async function scans(onCluster: RowhouseProcess, onOne: RowhouseProcess): Promise<void> {
  const dataset = { table: "entities", entities };
  for (const front of [onOne, onCluster]) await fill(front, dataset);
  const silent = () => {};
  const ratios = { list: [] as number[], find: [] as number[] };
  for (let turn = 0; turn < 3; turn++) {
    const one = (await list(onOne, dataset, silent)).milliseconds;
    ratios.list.push((await list(onCluster, dataset, silent)).milliseconds / one);
    const found = await findRow(onOne, dataset.table);
    ratios.find.push((await findRow(onCluster, dataset.table)) / found);
  }
  report(`an ordered scan of ${entities} entities over one server's`, median(ratios.list), 3);
  report("a RowKey without PartitionKey over one server's", median(ratios.find), 2);
}

await withFolder(async (folder) => {
  const settings = { fsync: "off", autovacuum: "off", max_wal_size: "4GB" };
  const cluster = await LocalCluster.start({ settings });
  const one = await LocalServer.create(citusBinaries());
  one.configure(settings);
  await one.start();
  const fronts: RowhouseProcess[] = [];
  try {
    const url = await cluster.coordinator.createDatabase();
    for (const at of [url, await one.createDatabase()]) {
      fronts.push(await startRowhouse(folder, ["--silent", "--engine", at, "--allowUnsafeEngine"]));
    }
    const [front, other] = fronts as [RowhouseProcess, RowhouseProcess];
    await assertDistributed(url);
    const wire = wireOf(front);
    await ask(wire, "POST", "/Tables", { body: { TableName: "Spread" } });
    for (let n = 0; n < PARTITIONS; n++) await ask(wire, "PUT", pathOf(n), { body: { n } });
    wire.close();
    await spread(cluster, url, front);
    await loseWorker(cluster, url, front);
    await grow(url, front);
    await scans(front, other);
  } finally {
    await Promise.all(fronts.map((front) => front.kill()));
    await one.remove();
    await cluster.remove();
  }
});
process.exitCode = hasMissed ? 1 : 0;
