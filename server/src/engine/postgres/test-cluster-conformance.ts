/** The engine's suite over a real cluster; takes minutes: npm run test:cluster. */
import { after, before, describe } from "node:test";
import { testEngineConformance } from "../conformance.ts";
import { installPostgres } from "./administer.ts";
import { openPostgresEngine } from "./postgres-engine.ts";
import { COLUMNS } from "./schema.ts";
import { assertDistributed, testCluster } from "./test-cluster.ts";
import { runAt, type TestServer } from "./test-server.ts";

describe("Over a Citus cluster", () => {
  let cluster: TestServer;
  let url: string;

  before(async () => {
    cluster = await testCluster();
    url = await cluster.createDatabase();
    // A handful of shards, because emptying the table takes as long as there are shards.
    await runAt(url, [
      `CREATE TABLE rh_kv (${COLUMNS})`,
      "SELECT create_distributed_table('rh_kv', 'pk', shard_count := 4)",
    ]);
    await installPostgres({ url, apply: true });
    await assertDistributed(url);
  });
  after(async () => {
    await cluster.dropDatabase(url);
    await cluster.stop();
  });

  const clockSkewMsMax = Number.POSITIVE_INFINITY;
  testEngineConformance({
    name: "PostgresEngine",
    async open({ clock }) {
      await runAt(url, ["DELETE FROM rh_kv", "DELETE FROM rh_reference WHERE ver > 0"]);
      return openPostgresEngine({ allowUnsafe: true, url, clock, clockSkewMsMax });
    },
    reopen: async (_closed, { clock }) =>
      openPostgresEngine({ allowUnsafe: true, url, clock, clockSkewMsMax }),
  });
});
