import type { Database } from "@rowhouse/patterns";
import { Order, Receipts } from "./model.ts";

export interface NewOrder {
  readonly shop: string;
  readonly id: number;
  readonly email: string;
  readonly total: number;
}

/** What the shop's pages and its API call. Any number of processes may run it. */
export class Shop {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** Takes an order, once: placing it again is refused. The worker does the rest. */
  async place(order: NewOrder): Promise<void> {
    await this.#db.open(Order).insert({ ...order, state: "placed" });
  }

  async ordersOf(shop: string, email: string) {
    return this.#db.open(Order).by.byEmail.range({ shop, email }).all();
  }

  /** Undefined until the worker has confirmed the order. */
  async receiptOf(shop: string, id: number): Promise<string | undefined> {
    const receipt = await this.#db.open(Receipts).get({ shop, id });
    return receipt && Buffer.from(receipt.body).toString("utf8");
  }
}
