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

/** A shop with five design mistakes, each in its own function. */
export const mistakenShop: Shop = {
  name: "mistaken",
  async run(tables) {
    await logEvents(tables);
    await findCustomers(tables);
    await listOrders(tables);
    await drawCharts(tables);
    await countStock(tables);
  },
};

/** Mistake 1: partition keys that ascend with time. */
async function logEvents({ open, pause }: ShopTables): Promise<void> {
  const events = await open("Events");
  for (let i = 0; i < 80; i++) {
    await events.createEntity({ partitionKey: eventTime(i), rowKey: `e${i}`, page: "/" });
    pause();
  }
}

/** Mistake 2: customers are looked up by an e-mail address that is in no key. */
async function findCustomers({ open, pause }: ShopTables): Promise<void> {
  const customers = await open("Customers");
  for (const region of ["north", "south"]) {
    const actions: TransactionAction[] = [];
    for (let i = region === "north" ? 0 : 1; i < CUSTOMERS; i += 2) {
      actions.push(["create", { partitionKey: region, rowKey: `c${i}`, email: emailOf(i) }]);
    }
    await customers.submitTransaction(actions);
    pause();
  }
  for (let i = 0; i < 5; i++) {
    const filter = odata`email eq ${emailOf(i * 31)}`;
    await countOf(customers.listEntities({ queryOptions: { filter } }));
    pause();
  }
}

/** Mistake 3: a point query for the product of each order in a list. */
async function listOrders({ open, pause }: ShopTables): Promise<void> {
  const products = await open("Products");
  await products.submitTransaction(
    PRODUCTS.map((rowKey) => ["create", { partitionKey: "catalog", rowKey, title: `A ${rowKey}` }]),
  );
  const orders = await open("Orders");
  for (const customer of ["c1", "c2", "c3", "c4"]) {
    await orders.submitTransaction(
      PRODUCTS.map((product, i) => [
        "create",
        { partitionKey: customer, rowKey: `order-${i}`, product },
      ]),
    );
    pause();
    const filter = odata`PartitionKey eq ${customer}`;
    for await (const order of orders.listEntities<{ product: string }>({
      queryOptions: { filter },
    })) {
      await products.getEntity("catalog", order.product);
      pause();
    }
  }
}

/** Mistake 4: a day's chart reads an entity for each hour. */
async function drawCharts({ open, pause }: ShopTables): Promise<void> {
  const readings = await open("Readings");
  for (const sensor of SENSORS) {
    const partitionKey = `${sensor}_20261120`;
    await readings.submitTransaction(
      HOURS.map((hour) => ["create", { partitionKey, rowKey: hour, celsius: 20 + Number(hour) }]),
    );
    pause();
    const filter = odata`PartitionKey eq ${partitionKey}`;
    await countOf(readings.listEntities({ queryOptions: { filter } }));
    pause();
  }
}

/** Mistake 5: a read decides between insert and update, where an upsert needs no decision. */
async function countStock({ open, pause }: ShopTables): Promise<void> {
  const stock = await open("Stock");
  for (let round = 0; round < 2; round++) {
    for (const product of PRODUCTS) {
      const isThere = await stock.getEntity(product, "now").then(
        () => true,
        () => false,
      );
      const entity = { partitionKey: product, rowKey: "now", pieces: 10 + round };
      if (isThere) await stock.updateEntity(entity, "Merge");
      else await stock.createEntity(entity);
      pause();
    }
  }
}
