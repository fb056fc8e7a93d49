import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { QueueServiceClient, StorageSharedKeyCredential } from "@azure/storage-queue";
import { connect, type Database, entity, f, type Infer, k } from "@rowhouse/patterns";
import { azureQueues, singleTry } from "@rowhouse/patterns/azure-queues";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { outboxReplay } from "@rowhouse/patterns/outbox";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { intercept, memory, withFaults } from "@rowhouse/patterns/testing";
import { view, viewUpdates } from "@rowhouse/patterns/view";
import { rebuildView } from "@rowhouse/patterns/view-rebuild";
import { type LocalServer, startLocalServer } from "../wire/local-server.ts";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
const fields = { shop: f.string(), id: f.int32(), day: f.string(), total: f.int32() };
const Sales = view("SalesByDay", {
  fields,
  key: { partition: [k.str("day")], row: [k.str("shop"), k.uint("id", 6)] },
  project: (order: Infer<typeof fields>) => (order.total > 0 ? order : undefined),
  queue: "views",
});
const Order = entity("Order", {
  version: 1,
  fields,
  key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
  followers: { sales: Sales },
});
let server: LocalServer;

before(async () => {
  const here = { host: "127.0.0.1", port: 0 };
  server = await startLocalServer({ listen: { table: here, queue: here } });
});
after(() => server.close());

function overHttp() {
  const { table, queue } = server.urls;
  const named = new AzureNamedKeyCredential(ACCOUNT, KEY);
  const options = { allowInsecureConnection: true };
  const shared = new StorageSharedKeyCredential(ACCOUNT, KEY);
  return {
    ...memory(),
    tables: azureTables(new TableServiceClient(`${table}/${ACCOUNT}`, named, options), {
      profile: "rowhouse",
    }),
    queues: azureQueues(new QueueServiceClient(`${queue}/${ACCOUNT}`, shared, singleTry)),
  };
}

const shown = async (db: Database, day: string) => {
  const rows = await (await db.open(Sales).current()).range({ day }).all();
  return rows.map(({ id, total }) => `${id}: ${total}`);
};

describe("a view on Rowhouse", () => {
  it("follows its sources although answers are lost, and can be rebuilt", async () => {
    const ports = overHttp();
    const faults = withFaults(({ method }, count) =>
      count % 4 === 0 && method !== "receive" ? { kind: "lose answer" } : undefined,
    );
    const db = connect({ ...ports, ...intercept(ports, faults), retry: { schedule: "fast" } });
    const handlers = [outboxReplay(), viewUpdates([Order])];
    const worker = createWorker(db, { queue: "views", handlers });
    await db.createTables(Order);
    await worker.createQueues();
    const orders = db.open(Order);
    for (const id of [1, 2, 3]) await orders.insert({ shop: "north", id, day: "mon", total: id });
    await orders.update({ shop: "north", id: 2 }, () => ({ day: "tue" }));
    await orders.delete({ shop: "north", id: 3 });
    await worker.drain();
    assert.deepEqual([await shown(db, "mon"), await shown(db, "tue")], [["1: 1"], ["2: 2"]]);
    await rebuildView(db, Sales, Order);
    // A new database, which has no cached generations and must read them.
    const anew = connect(overHttp());
    assert.equal((await anew.open(Sales).status()).generation, 2);
    assert.deepEqual([await shown(anew, "mon"), await shown(anew, "tue")], [["1: 1"], ["2: 2"]]);
  });
});
