import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EngineError } from "../engine.ts";
import { installPostgres } from "./administer.ts";
import { checkPostgres } from "./check.ts";
import { parsePostgresUrl } from "./config.ts";
import { Connector } from "./connector.ts";
import { explainPostgres } from "./explain.ts";
import { COLUMNS } from "./schema.ts";
import { assertDistributed, NO_CLUSTER, testCluster } from "./test-cluster.ts";
import { runAt, type TestServer, workersOf } from "./test-server.ts";

describe("PostgresEngine on a Citus cluster", { skip: NO_CLUSTER }, () => {
  let cluster: TestServer & { readonly url: string };
  let url: string;

  before(async () => {
    cluster = await testCluster();
    url = await cluster.createDatabase();
    // A handful of shards, because emptying the table takes as long as there are shards.
    await runAt(url, [
      `CREATE TABLE rh_kv (${COLUMNS})`,
      "SELECT create_distributed_table('rh_kv', 'pk', shard_count := 4)",
    ]);
    const install = () => installPostgres({ url, apply: true });
    await Promise.all([install(), install(), install()]);
    await install();
    await assertDistributed(url);
  });
  after(async () => {
    await cluster.dropDatabase(url);
    await cluster.stop();
  });

  it("is not installed where it would not be one, and says what to do first", async () => {
    const isToldTo = (remedy: RegExp) => (error: unknown) =>
      error instanceof EngineError && remedy.test(error.message);
    const install = (at: string) => installPostgres({ url: at, apply: true });
    const [worker] = await workersOf(url);
    await assert.rejects(install(worker!), isToldTo(/install` with the coordinator's address/));
    const lone = new URL(cluster.url);
    lone.pathname = "lone_coordinator";
    await runAt(cluster.url, ["CREATE DATABASE lone_coordinator TEMPLATE template0"]);
    try {
      await runAt(lone.toString(), ["CREATE EXTENSION citus"]);
      await assert.rejects(
        install(lone.toString()),
        isToldTo(/run SELECT citus_set_coordinator_host/),
      );
      await runAt(lone.toString(), [
        `SELECT citus_set_coordinator_host('${lone.hostname}', ${lone.port})`,
      ]);
      await assert.rejects(install(lone.toString()), isToldTo(/run SELECT citus_add_node/));
    } finally {
      await runAt(cluster.url, ["DROP DATABASE lone_coordinator WITH (FORCE)"]);
    }
  });

  it("has each node read the names from its own copy", async () => {
    for (const node of [url, ...(await workersOf(url))]) {
      const access = { preparedStatements: true, settings: [], allowUnsafe: true };
      const session = await new Connector(parsePostgresUrl(node), access).connect();
      assert.match(session.copyOfNames!, /^rh_reference_[0-9]+$/);
      session.close();
    }
  });

  it("finds nothing to mend on an empty one and on one whose shards have grown unseen", async () => {
    const problems = async () => {
      const findings = await checkPostgres({ url });
      const reports = await explainPostgres({ url });
      return [
        ...findings.filter(({ level, topic }) => level === "problem" && topic !== "durability"),
        ...reports.filter((report) => report.problems.length > 0),
      ];
    };
    await runAt(url, ["DELETE FROM rh_kv", "ANALYZE rh_kv"]);
    assert.deepEqual(await problems(), []);
    await runAt(url, [
      "INSERT INTO rh_kv SELECT 'one', int4send(i), 1, 'v' FROM generate_series(1, 20000) i",
    ]);
    assert.deepEqual(await problems(), []);
  });

  it("warns of workers where a write would wait for a row without end, until its role has a setting", async () => {
    const warned = async () =>
      (await checkPostgres({ url })).filter(({ topic }) => topic === "lock_timeout").length;
    assert.equal(await warned(), (await workersOf(url)).length);
    const { pathname, username } = new URL(url);
    const role = `ALTER ROLE ${username} IN DATABASE ${pathname.slice(1)}`;
    for (const node of await workersOf(url)) await runAt(node, [`${role} SET lock_timeout = '5s'`]);
    assert.equal(await warned(), 0);
  });
});
