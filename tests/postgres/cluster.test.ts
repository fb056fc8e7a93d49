import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { RestError, TableClient } from "@azure/data-tables";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import { systemClock } from "@rowhouse/server/clock";
import { decodeId, decodeText } from "@rowhouse/server/engine/key-codec";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { LocalCluster, NO_CLUSTER } from "@rowhouse/server/engine/postgres/test-cluster";
import { runAt } from "@rowhouse/server/engine/postgres/test-server";
import { PartitionLoad } from "@rowhouse/server/insight/partition-load";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import { withNodes } from "@rowhouse/server/table/partition-nodes";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const REQUEST_MS_MAX = 2_000;
const PARTITIONS = 16;

describe("A front end over a Citus cluster", { skip: NO_CLUSTER }, () => {
  let cluster: LocalCluster;
  let url: string;
  let front: RunningServer;
  let table: TableClient;

  before(async () => {
    cluster = await LocalCluster.start({ settings: { fsync: "off" } });
    url = await cluster.coordinator.createDatabase();
    front = await startFront();
    table = tableNamed("Spread");
    await table.createTable();
    for (let n = 0; n < PARTITIONS; n++) await table.createEntity(entity(n, "old"));
  });
  after(async () => {
    await front.close();
    await cluster.remove();
  });

  async function startFront(): Promise<RunningServer> {
    const engine = await openPostgresEngine({ url, allowUnsafe: true, timeoutMs: REQUEST_MS_MAX });
    return startServer({
      accounts: parseAccounts(undefined),
      engine,
      listen: { table: { host: "127.0.0.1", port: 0 } },
    });
  }

  function tableNamed(name: string): TableClient {
    const connection =
      `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};` +
      `TableEndpoint=${front.urls.table}/devstoreaccount1`;
    const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
    return TableClient.fromConnectionString(connection, name, options);
  }

  it("asks one worker once to read an entity with its table: the one that has the entity", async () => {
    const before = await transactions();
    for (let turn = 0; turn < 25; turn++) {
      for (let n = 0; n < PARTITIONS; n++) await table.getEntity(`p${n}`, "old");
    }
    const expected = (await shares()).map((share) => share * 25);
    let counts: number[];
    // A worker's processes report what they did when they are idle.
    do counts = (await transactions()).map((count, worker) => count - before[worker]!);
    while (counts.some((count, worker) => count < expected[worker]!));
    for (const [worker, count] of counts.entries()) {
      // The others are the test's own looks, and the cluster's at its nodes.
      assert.ok(
        count <= expected[worker]! * 1.5 + 50,
        `worker ${worker}: ${count} transactions for ${expected[worker]} requests`,
      );
    }
  });

  it("tells which worker has a hot partition", async () => {
    const engine = await openPostgresEngine({ url, allowUnsafe: true });
    const load = new PartitionLoad(systemClock);
    const names = Array.from({ length: PARTITIONS }, (_, n) => `p${n}`);
    for (const partitionKey of [...names, "gone"]) {
      const at = systemClock.now();
      const table = partitionKey === "gone" ? "Gone" : "Spread";
      const mutations = [
        { kind: "insert", partitionKey, rowKey: "r", ifMatch: undefined },
      ] as const;
      const client = "127.0.0.1";
      load.admitWrite({ at, account: "devstoreaccount1", table, partitionKey, mutations, client });
    }
    const hottest = await withNodes(
      engine,
      (partitions) => engine.nodesOf(partitions),
      load.report().hottest,
    );
    const found = new Map(hottest.map(({ partition, node }) => [partition.split("/")[2], node]));
    for (const { port } of cluster.workers) {
      for (const n of await partitionsOf(port))
        assert.match(found.get(`p${n}`)!, RegExp(`:${port}$`));
    }
    assert.equal(found.size, PARTITIONS + 1);
    assert.equal(found.get("gone"), undefined);
    await engine.close();
  });

  it("serves the partitions of the other worker, and refuses those of one that is away with 503, until it is back", async () => {
    const lost = new Set(await partitionsOf(cluster.workers[1]!.port));
    assert.ok(lost.size > 0 && lost.size < PARTITIONS);
    await cluster.workers[1]!.stop("immediate");
    const requests: Promise<void>[] = [];
    for (let n = 0; n < PARTITIONS; n++) {
      const outcome = (request: Promise<unknown>, statuses = [503]) =>
        lost.has(n) ? assertRefused(request, statuses) : request.then(() => {});
      // One statement that commits by itself, over a connection that broke: the worker may have executed it.
      const write = (request: Promise<unknown>) => outcome(request, [503, 500]);
      requests.push(
        outcome(table.getEntity(`p${n}`, "old")),
        write(table.createEntity(entity(n, "one"))),
        write(table.upsertEntity(entity(n, "old"))),
        outcome(
          table.submitTransaction(["two", "three"].map((rowKey) => ["create", entity(n, rowKey)])),
        ),
      );
    }
    await Promise.all(requests);
    // A front end that starts now needs no worker to know the table.
    await front.close();
    front = await startFront();
    table = tableNamed("Spread");
    for (let n = 0; n < PARTITIONS; n++) {
      if (!lost.has(n)) await table.getEntity(`p${n}`, "three");
    }
    await cluster.workers[1]!.start();
    for (const n of lost) await table.upsertEntity(entity(n, "one"));
    let count = 0;
    for await (const _ of table.listEntities()) count++;
    assert.equal(count, PARTITIONS * 2 + (PARTITIONS - lost.size) * 2);
  });

  /** Transactions that each worker has committed. */
  async function transactions(): Promise<number[]> {
    return Promise.all(
      cluster.workers.map(async (worker) => {
        const [[count] = []] = await worker.run(
          "SELECT pg_stat_clear_snapshot()",
          `SELECT xact_commit FROM pg_stat_database WHERE datname = '${new URL(url).pathname.slice(1)}'`,
        );
        return Number(count);
      }),
    );
  }

  async function shares(): Promise<number[]> {
    const counts = cluster.workers.map(({ port }) => partitionsOf(port));
    return (await Promise.all(counts)).map((partitions) => partitions.length);
  }

  /** The numbers of the partitions that a worker holds. */
  async function partitionsOf(port: number): Promise<number[]> {
    const keys = await runAt(url, [
      `SELECT DISTINCT encode(pk, 'hex') FROM rh_kv WHERE get_byte(pk, 0) = ${KEY_SPACES.entities}`,
    ]);
    const values = keys.map(([hex]) => `('\\x${hex}'::bytea)`);
    const rows = await runAt(url, [
      `SELECT pk FROM (VALUES ${values}) AS k(pk) JOIN pg_dist_shard_placement AS p ON ` +
        `p.shardid = get_shard_id_for_distribution_column('rh_kv', pk) WHERE p.nodeport = ${port}`,
    ]);
    return rows.map(([pk]) => {
      assert.ok(pk instanceof Buffer);
      const afterTable = decodeId(pk, decodeId(pk, 1).end).end;
      return Number(decodeText(pk, afterTable).slice(1));
    });
  }
});

function entity(n: number, rowKey: string) {
  return { partitionKey: `p${n}`, rowKey, n };
}

async function assertRefused(
  request: Promise<unknown>,
  statuses: readonly number[],
): Promise<void> {
  await assert.rejects(request, (error: unknown) => {
    assert.ok(error instanceof RestError);
    assert.ok(statuses.includes(error.statusCode ?? 0), `${error.statusCode}: ${error.message}`);
    return true;
  });
}
