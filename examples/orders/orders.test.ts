import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database } from "@rowhouse/patterns";
import { crashEverywhere, memory } from "@rowhouse/patterns/testing";
import { startRowhouse } from "rowhouse/testing";
import { connectTo } from "./connect.ts";
import { Order, Receipts } from "./model.ts";
import { Shop } from "./shop.ts";
import { orderWorker } from "./worker.ts";

const ORDER = { shop: "north", id: 7, email: "ann@contoso.com", total: 250 };

async function provision(db: Database): Promise<void> {
  await db.provision(Order, Receipts, orderWorker(db));
}

async function placesAndConfirms(db: Database): Promise<void> {
  await provision(db);
  const shop = new Shop(db);
  await shop.place(ORDER);
  assert.equal(await shop.receiptOf("north", 7), undefined);
  await orderWorker(db).drain();
  assert.equal(await shop.receiptOf("north", 7), "Order 7: 250 to be paid by ann@contoso.com");
  const [order] = await shop.ordersOf("north", "ann@contoso.com");
  assert.equal(order?.state, "confirmed");
  await assert.rejects(shop.place(ORDER), { code: "unique-violation" });
}

describe("The order service", () => {
  it("places and confirms an order in memory", () => placesAndConfirms(connect(memory())));

  it("does the same against a server, where no query scans", async () => {
    await using server = await startRowhouse();
    const db = connectTo(server.connectionString);
    await provision(db); // looks once whether a new index has anything to be built from
    const since = server.mark();
    await placesAndConfirms(db);
    server.assertNothingScanned({ since });
  });

  it("confirms every order that was accepted, wherever its writer was killed", async () => {
    const place = (db: Database) => new Shop(db).place(ORDER);
    const recover = async (db: Database) => {
      // The tripwire of a writer that died fires after 90 s.
      await db.clock.sleep(100_000);
      await orderWorker(db).drain();
    };
    const check = async (db: Database) => {
      const order = await db.open(Order).get({ shop: "north", id: 7 });
      if (order === undefined) return; // Killed before the commit: the order was never accepted.
      assert.equal(order.state, "confirmed");
    };
    assert.ok((await crashEverywhere(place, { before: provision, recover, check })) > 0);
  });

  it("confirms them wherever the worker was killed", async () => {
    const before = async (db: Database) => {
      await provision(db);
      await new Shop(db).place(ORDER);
    };
    const work = async (db: Database) => {
      await orderWorker(db).drain();
    };
    const recover = async (db: Database) => {
      // Messages of a worker that died come back when their leases expire.
      await db.clock.sleep(100_000);
      await orderWorker(db).drain();
    };
    const check = async (db: Database) => {
      assert.equal((await db.open(Order).get({ shop: "north", id: 7 }))?.state, "confirmed");
    };
    assert.ok((await crashEverywhere(work, { before, recover, check })) > 0);
  });
});
