import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { LocalCluster, NO_CLUSTER } from "@rowhouse/server/engine/postgres/test-cluster";
import { Relay } from "@rowhouse/server/engine/postgres/test-relay";
import { formCluster, runAt } from "@rowhouse/server/engine/postgres/test-server";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import { TableWire } from "../wire/table-wire.ts";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const ACCOUNT = "devstoreaccount1";
const PARTITIONS = 8;

/*
 * A change of a name commits on all nodes in two phases. Behind the first it is decided; a worker that is lost then has the
 * old name until the cluster repeats the second, a minute later, and the coordinator only warns. Here a relay before each
 * worker spoils the second phase, of one worker at a time: the first one also has the locks of such changes. Two front
 * ends have the coordinator's address, and one each worker's.
 */
describe("A name whose change has not reached a worker", { skip: NO_CLUSTER }, () => {
  let cluster: LocalCluster;
  let url: string;
  let relays: Relay[];
  let spoiling: Relay | undefined;
  let spoiled = 0;
  const fronts: RunningServer[] = [];
  const wires: TableWire[] = [];

  before(async () => {
    cluster = await LocalCluster.start({
      settings: { fsync: "off", "citus.recover_2pc_interval": "-1" },
    });
    for (const node of cluster.nodes) await node.run("CREATE DATABASE phases TEMPLATE template0");
    url = cluster.coordinator.url("phases");
    relays = await Promise.all(cluster.workers.map((worker) => Relay.open(worker.url("phases"))));
    for (const relay of relays) {
      relay.onRequest = (message) => {
        const text = message.toString("latin1");
        if (relay !== spoiling || !text.includes("COMMIT PREPARED 'citus_")) return message;
        spoiled++;
        return Buffer.from(text.replace("PREPARED 'citus_", "PREPARED 'other_"), "latin1");
      };
    }
    await formCluster(
      url,
      relays.map((relay) => relay.url),
    );
    const workers = cluster.workers.map((worker) => worker.url("phases"));
    for (const node of [url, url, ...workers]) {
      const front = await startServer({
        accounts: parseAccounts(undefined),
        engine: await openPostgresEngine({ url: node, allowUnsafe: true }),
        listen: { table: { host: "127.0.0.1", port: 0 } },
      });
      fronts.push(front);
      wires.push(
        new TableWire({ url: `${front.urls.table}/${ACCOUNT}`, account: ACCOUNT, key: KEY }),
      );
    }
  });
  after(async () => {
    for (const wire of wires) wire.close();
    await Promise.all(fronts.map((front) => front.close()));
    await Promise.all(relays.map((relay) => relay.close()));
    await cluster.remove();
  });

  const create = (name: string) => wires[0]!.send("POST", "/Tables", { body: { TableName: name } });
  const remove = (name: string) => wires[0]!.send("DELETE", `/Tables('${name}')`);

  /** The statuses of reads of every partition through all front ends, or some. */
  async function reads(name: string, through = wires): Promise<number[]> {
    const statuses: number[] = [];
    for (const wire of through) {
      for (let n = 0; n < PARTITIONS; n++) {
        const path = `/${name}(PartitionKey='p${n}',RowKey='r')`;
        statuses.push((await wire.send("GET", path)).status);
      }
    }
    return statuses;
  }

  async function fill(name: string): Promise<void> {
    assert.equal((await create(name)).status, 201);
    for (let n = 0; n < PARTITIONS; n++) {
      const path = `/${name}(PartitionKey='p${n}',RowKey='r')`;
      assert.equal((await wires[0]!.send("PUT", path, { body: { n } })).status, 204);
    }
    assert.deepEqual(new Set(await reads(name)), new Set([200]));
  }

  /** Runs a change whose second phase fails on one worker. */
  async function spoil<Answer>(worker: number, change: () => Promise<Answer>): Promise<Answer> {
    spoiling = relays[worker];
    spoiled = 0;
    const answer = await change().finally(() => {
      spoiling = undefined;
    });
    assert.ok(spoiled > 0, "no second phase was spoiled");
    return answer;
  }

  const recover = () => runAt(url, ["SELECT recover_prepared_transactions()"]);

  for (const worker of [0, 1]) {
    it(`is never acknowledged as removed, and is gone everywhere once worker ${worker} has recovered`, async () => {
      const name = `Gone${worker}`;
      await fill(name);
      const answer = await spoil(worker, () => remove(name));
      assert.equal(answer.status, 500, String(answer));
      await recover();
      assert.deepEqual(new Set(await reads(name)), new Set([404]));
      assert.equal((await remove(name)).status, 404);
    });

    it(`is never acknowledged as created; whoever then finds it created reads it through worker ${worker}, too`, async () => {
      const name = `New${worker}`;
      const answer = await spoil(worker, () => create(name));
      assert.equal(answer.status, 500, String(answer));
      const again = await create(name);
      assert.match(again.text, /TableAlreadyExists/);
      for (let n = 0; n < PARTITIONS; n++) {
        const body = { PartitionKey: `p${n}`, RowKey: "r" };
        assert.equal((await wires[0]!.send("POST", `/${name}`, { body })).status, 201);
      }
      // The front end whose address is that worker's knows the names that the worker has.
      const own = wires[2 + worker]!;
      const others = wires.filter((wire) => wire !== own);
      assert.deepEqual(new Set(await reads(name, others)), new Set([200]));
      assert.deepEqual(new Set(await reads(name, [own])), new Set([404]));
      await recover();
      assert.deepEqual(new Set(await reads(name)), new Set([200]));
    });
  }
});
