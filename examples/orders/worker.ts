import type { Database } from "@rowhouse/patterns";
import { outboxReplay } from "@rowhouse/patterns/outbox";
import { createWorker, Fatal, type Worker } from "@rowhouse/patterns/queue-worker";
import { ORDER_EVENTS, Order, Receipts } from "./model.ts";

/** Writes the receipt of each order that was placed, and confirms it. A message may come twice: so may this. */
export function orderWorker(db: Database): Worker {
  return createWorker(db, {
    queue: ORDER_EVENTS,
    handlers: [
      // For orders whose writer died between the commit and the message.
      outboxReplay(),
      {
        kind: "order-placed",
        async handle({ body }, { database }) {
          const key = keyOf(body);
          const order = await database.open(Order).get(key);
          if (order === undefined) throw new Fatal(`there is no order ${key.id} in ${key.shop}`);
          if (order.state === "confirmed") return;
          const receipt = Buffer.from(
            `Order ${order.id}: ${order.total} to be paid by ${order.email}`,
          );
          await database.open(Receipts).put(key, receipt, "text/plain");
          await database.open(Order).update(key, () => ({ state: "confirmed" }));
        },
      },
    ],
  });
}

function keyOf(body: unknown): { shop: string; id: number } {
  if (typeof body === "object" && body !== null && "shop" in body && "id" in body) {
    const { shop, id } = body;
    if (typeof shop === "string" && typeof id === "number") return { shop, id };
  }
  throw new Fatal("the message names no order");
}
