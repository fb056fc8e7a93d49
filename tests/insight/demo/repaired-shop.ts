import { odata, type TransactionAction } from "@azure/data-tables";
import {
  CUSTOMERS,
  countOf,
  emailOf,
  eventTime,
  HOURS,
  PRODUCTS,
  SENSORS,
  type Shop,
  type ShopTables,
} from "./shop.ts";

/** The same shop with each mistake repaired as `rowhouse advise` suggests. */
export const repairedShop: Shop = {
  name: "repaired",
  async run(tables) {
    await logEvents(tables);
    await findCustomers(tables);
    await listOrders(tables);
    await drawCharts(tables);
    await countStock(tables);
  },
};

const BUCKETS = 16;

/** A bucket before the time spreads inserts; a reader queries all buckets concurrently. */
async function logEvents({ open, pause }: ShopTables): Promise<void> {
  const events = await open("Events");
  for (let i = 0; i < 80; i++) {
    const bucket = String((i * 7) % BUCKETS).padStart(2, "0");
    const partitionKey = `${bucket}_${eventTime(i)}`;
    await events.createEntity({ partitionKey, rowKey: `e${i}`, page: "/" });
    pause();
  }
}

/** A second table maps each e-mail address to the keys of the customer. */
async function findCustomers({ open, pause }: ShopTables): Promise<void> {
  const customers = await open("Customers");
  const byEmail = await open("CustomersByEmail");
  for (const region of ["north", "south"]) {
    const actions: TransactionAction[] = [];
    for (let i = region === "north" ? 0 : 1; i < CUSTOMERS; i += 2) {
      actions.push(["create", { partitionKey: region, rowKey: `c${i}`, email: emailOf(i) }]);
      const partitionKey = emailOf(i);
      await byEmail.createEntity({ partitionKey, rowKey: `${region}_c${i}`, region });
      pause();
    }
    await customers.submitTransaction(actions);
    pause();
  }
  for (let i = 0; i < 5; i++) {
    const filter = odata`PartitionKey eq ${emailOf(i * 31)}`;
    await countOf(byEmail.listEntities({ queryOptions: { filter } }));
    pause();
  }
}

/** An order contains what the list shows of its product. */
async function listOrders({ open, pause }: ShopTables): Promise<void> {
  const orders = await open("Orders");
  for (const customer of ["c1", "c2", "c3", "c4"]) {
    await orders.submitTransaction(
      PRODUCTS.map((product, i) => [
        "create",
        { partitionKey: customer, rowKey: `order-${i}`, product, productTitle: `A ${product}` },
      ]),
    );
    pause();
    const filter = odata`PartitionKey eq ${customer}`;
    await countOf(orders.listEntities({ queryOptions: { filter } }));
    pause();
  }
}

/** A day is one entity, and an hour one of its properties: a new value is a merge, a chart a point query. */
async function drawCharts({ open, pause }: ShopTables): Promise<void> {
  const readings = await open("Readings");
  for (const hour of HOURS) {
    for (const sensor of SENSORS) {
      const keys = { partitionKey: sensor, rowKey: "20261120" };
      await readings.upsertEntity({ ...keys, [`V${hour}`]: 20 + Number(hour) }, "Merge");
      pause();
    }
  }
  for (const sensor of SENSORS) {
    await readings.getEntity(sensor, "20261120");
    pause();
  }
}

/** An upsert needs no read. */
async function countStock({ open, pause }: ShopTables): Promise<void> {
  const stock = await open("Stock");
  for (let round = 0; round < 2; round++) {
    for (const product of PRODUCTS) {
      const entity = { partitionKey: product, rowKey: "now", pieces: 10 + round };
      await stock.upsertEntity(entity, "Merge");
      pause();
    }
  }
}
