import { connect, entity, f, k } from "../src/index.ts";
import { rotating } from "../src/rotation.ts";
import { spread } from "../src/spread.ts";
import { memory } from "../src/testing.ts";
import { wide } from "../src/wide.ts";

const db = connect(memory());
const fields = { user: f.string(), at: f.date(), id: f.string(), ok: f.bool().optional() };
const Attempt = entity("Attempt", {
  version: 1,
  fields,
  key: { partition: [k.str("user")], row: [k.date("at"), k.str("id")] },
});
const attempts = db.open(rotating(Attempt, { at: "at", unit: "day", keep: 60 }));
const log = db.open(spread("Log", { fields, stream: [k.str("user")], at: "at", buckets: 16 }));
const key = { partition: [k.str("user")], row: [k.str("id")] } as const;
const year = db.open(wide("Year", { version: 1, fields, key }));
const at = new Date();
const interval = { from: at, to: at };

export async function accepted() {
  const row = await attempts.insert({ user: "a", at, id: "1" });
  void (row?.ok satisfies boolean | undefined);
  for await (const { id } of attempts.range({ user: "a", ...interval })) void (id satisfies string);
  const { entryId } = await log.append({ user: "a", at, id: "1" });
  void ((await log.get({ user: "a", at, entryId }))?.id satisfies string | undefined);
  for await (const hit of log.rangeInOrder({ user: "a", ...interval })) void hit.entryId;
  await year.merge({ user: "a", id: "1", ok: undefined });
  void ((await year.read({ user: "a", id: "1" }))?.at satisfies Date | undefined);
}

export async function refused() {
  // error: '"when"' is not assignable
  rotating(Attempt, { at: "when", unit: "day", keep: 60 });
  // error: '"week"' is not assignable
  rotating(Attempt, { at: "at", unit: "week", keep: 60 });
  // error: Property 'from' is missing
  attempts.range({ user: "a", to: at });
  // error: Property 'id' is missing
  await log.append({ user: "a", at });
  // error: Property 'user' is missing
  log.rangeInOrder(interval);
  // error: 'string' is not assignable to type 'boolean
  await year.merge({ user: "a", id: "1", ok: "yes" });
  // error: Property 'at' is missing
  await year.write({ user: "a", id: "1" });
}
