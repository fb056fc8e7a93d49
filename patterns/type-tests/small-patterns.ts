import { family } from "../src/children.ts";
import { connect, entity, f, k } from "../src/index.ts";
import { logTail } from "../src/log-tail.ts";
import { longText } from "../src/long-text.ts";
import { hours, series, slots } from "../src/series.ts";
import { smallPartitions } from "../src/small-partitions.ts";
import { spread } from "../src/spread.ts";
import { memory } from "../src/testing.ts";
import { is, union } from "../src/union.ts";
import { wide } from "../src/wide.ts";

const db = connect(memory());
const partition = [k.str("dept")] as const;
const Employee = entity("Employee", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), email: f.string() },
  key: { partition, row: [k.lit("empid"), k.uint("id", 6)] },
});
const Review = entity("Review", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), year: f.int32(), rating: f.int32() },
  key: { partition, row: [k.lit("empid"), k.uint("id", 6), k.uint("year", 4)] },
});
const staff = db.open(union(Employee, Review));
const reviewed = db.open(family(Employee, Review));
const few = db.open(smallPartitions(Employee, { maxRows: 100 }));
const key = { dept: "Sales", id: 1 };
const fields = { dept: f.string(), day: f.string() };
const statsKey = { partition, row: [k.str("day")] } as const;
const stats = db.open(series("Stats", { fields, key: statsKey, slots: hours("count") }));
const totals = db.open(
  series("Totals", { fields, key: statsKey, slots: slots("sum", 12, f.int64()) }),
);
const body = longText("body");
const Article = entity("Article", {
  version: 1,
  fields: { dept: f.string(), id: f.string(), ...body.fields },
  key: { partition, row: [k.str("id")] },
});

export async function accepted() {
  for (const row of await staff.range({ dept: "Sales" }).all()) {
    switch (row.kind) {
      case "Employee":
        void (row.email satisfies string);
        break;
      case "Review":
        void (row.rating satisfies number);
        break;
      default:
        void (row satisfies { kind: "unknown" });
        void row.raw.rowKey;
    }
    if (is(row, Review)) void (row.year satisfies number);
  }
  const named = few.range({ dept: "Sales" }).where(({ email }) => email.gt("m"));
  const [found] = await named.select("email").all();
  void (found?.email satisfies string | undefined);
  const family = await reviewed.withChildren(key);
  void (family?.parent.email satisfies string | undefined);
  void (family?.children[0]?.rating satisfies number | undefined);
  await reviewed.children.range({ ...key, year: { gte: 2012 } }).all();
  void ((await stats.read({ dept: "a", day: "b" })) satisfies (number | undefined)[]);
  await totals.add({ dept: "a", day: "b" }, 1, 2n);
  const article = await db.open(Article).get({ dept: "a", id: "1" });
  await db.open(Article).upsert({ dept: "a", id: "1", ...body.split("text") });
  return article && body.join(article);
}

export async function refused() {
  // error: 'id' does not exist
  staff.range({ id: 1 });
  // error: Add an index, or pass { allow: '
  await staff.scan().all();
  // error: Property 'dept' is missing
  few.range({ id: 1 });
  // error: Property 'age' does not exist
  few.range({ dept: "Sales" }).where(({ age }) => age.gt(1));
  const [row] = await staff.range({ dept: "Sales" }).all();
  // error: Property 'email' does not exist
  row?.email;
  // error: Property 'rating' is missing
  await reviewed.addChild({ ...key, year: 2012 });
  // error: Property 'id' is missing
  await reviewed.withChildren({ dept: "Sales" });
  // error: not assignable to parameter of type 'bigint'
  await totals.add({ dept: "a", day: "b" }, 1, 2);
  // error: Property 'day' is missing
  await stats.read({ dept: "a" });
  const nobody = { partition: [k.str("nobody")], row: [k.str("day")] } as const;
  // error: A segment's field is missing
  series("Stats", { fields, key: nobody, slots: hours("count") });
  // error: A segment's field is missing
  wide("Year", { version: 1, fields, key: nobody });
  const timed = { ...fields, at: f.date() };
  const stream = nobody.partition;
  // error: A segment's field is missing
  logTail("Log", { fields: timed, stream, at: "at" });
  // error: A segment's field is missing
  spread("Hits", { fields: timed, stream, at: "at", buckets: 4 });
  // error: 'body_15' does not exist
  await db.open(Article).upsert({ dept: "a", id: "1", body_15: "x" });
}
