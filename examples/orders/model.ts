import { entity, f, type Infer, k } from "@rowhouse/patterns";
import { largeValueFields, largeValues } from "@rowhouse/patterns/large-value";
import { outbox } from "@rowhouse/patterns/outbox";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";

/** The queue of everything that happens after an order was written. */
export const ORDER_EVENTS = "order-events";

const fields = {
  shop: f.string(),
  id: f.int32(),
  email: f.string(),
  total: f.int32(),
  state: f.oneOf("placed", "confirmed"),
  ...largeValueFields("receipt"),
};

/** A shop is a partition: one transaction writes an order, its index entries and its message. */
export const Order = entity("Order", {
  version: 1,
  fields,
  key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
  indexes: {
    byEmail: siblingIndex({ row: [k.lit("email"), k.str("email"), k.uint("id", 6)] }),
  },
  followers: {
    // Nothing to say when the worker itself writes: that would never end.
    placed: outbox<Infer<typeof fields>>({
      queue: ORDER_EVENTS,
      message: ({ key, after, before }) =>
        after && !before
          ? { kind: "order-placed", key: key.rowKey, body: { shop: after.shop, id: after.id } }
          : undefined,
    }),
  },
});

/** The receipt of an order, in a blob. */
export const Receipts = largeValues(Order, { name: "receipt", container: "receipts" });
