import { connect, entity, f, type Infer, k } from "../src/index.ts";
import { memory } from "../src/testing.ts";
import { view } from "../src/view.ts";
import { rebuildView } from "../src/view-rebuild.ts";

const fields = { shop: f.string(), id: f.int32(), total: f.int32() };
type Order = Infer<typeof fields>;
const target = { fields, queue: "views" } as const;
const key = { partition: [k.uint("total", 9)], row: [k.str("shop"), k.uint("id", 6)] } as const;
const ByTotal = view("ByTotal", { ...target, key, project: (order: Order) => order });
const Orders = entity("Order", {
  version: 1,
  fields,
  key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
  followers: { byTotal: ByTotal },
});
const db = connect(memory());

export async function accepted() {
  const rows = await db.open(ByTotal).current();
  const found = await rows.range({ total: 5, shop: "north" }).select("id").all();
  void (found[0]?.id satisfies number | undefined);
  void ((await db.open(ByTotal).status()).lagMs satisfies number);
  await rebuildView(db, ByTotal, Orders, { graceMs: 0 });
  view("Two", { ...target, key, project: (order: Order) => [order, order] });
  const narrow = { shop: f.string(), id: f.int32() };
  const byShop = { partition: [k.str("shop")], row: [k.uint("id", 6)] } as const;
  const project = (order: Order) => order;
  view("Narrow", { fields: narrow, queue: "views", key: byShop, project });
  view("NarrowToo", {
    fields: narrow,
    queue: "views",
    key: byShop,
    project: (order: Order) => order,
  });
  view("None", { ...target, key, project: (_order: Order) => undefined });
}

export async function refused() {
  const rows = await db.open(ByTotal).current();
  // error: 'insert' does not exist
  await rows.insert({ shop: "north", id: 1, total: 5 });
  // error: Property 'total' is missing
  rows.range({ shop: "north" });
  // error: Add an index, or pass { allow: '
  await rows.scan().all();
  // error: 'Repository
  await rebuildView(db, ByTotal, db.open(Orders));
  // error: Property 'id' is missing
  view("Lacking", { ...target, key, project: ({ shop, total }: Order) => ({ shop, total }) });
  const row = [k.str("city")] as const;
  // error: A segment's field is missing
  view("Other", { ...target, key: { ...key, row }, project: (order: Order) => order });
}
