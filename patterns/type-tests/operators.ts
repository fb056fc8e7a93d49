import { bulkDelete } from "../src/bulk-delete.ts";
import { connect, entity, f, isTableError, k } from "../src/index.ts";
import { indexLifeCycle } from "../src/index-life-cycle.ts";
import { indexRepairs } from "../src/index-repairs.ts";
import { repairIndex, verifyIndex } from "../src/index-scrub.ts";
import { controlledIndexes } from "../src/index-states.ts";
import { located } from "../src/located.ts";
import { createWorker } from "../src/queue-worker.ts";
import { siblingIndex } from "../src/sibling-index.ts";
import { memory } from "../src/testing.ts";
import { warnings } from "../src/warnings.ts";

const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), email: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: { email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }) },
});
const indexStates = controlledIndexes({ unregistered: "refused" });
const db = connect({ ...memory(), ...warnings(() => {}), indexStates });
const key = { dept: "Sales", id: 1 };
const placed = located(Employee, ({ account }: typeof key & { account: string }) =>
  account === "here" ? undefined : db,
);

export async function accepted() {
  const range = { partitionKey: "Sales", rows: { from: "a", to: "b" } };
  void ((await bulkDelete(db, "Employee", range)) satisfies number);
  const cycle = indexLifeCycle(db, Employee, "email");
  const { duplicates } = await cycle.build({ rate: 10 });
  void (duplicates satisfies readonly string[]);
  void ((await cycle.state()) satisfies "disabled" | "readable" | (string & {}));
  await indexLifeCycle(db, Employee, "email").build({
    shards: 2,
    onProgress: ({ shardsDone }) => shardsDone,
  });
  const { missing } = await verifyIndex(db, Employee, "email", { sample: 0.1 });
  await repairIndex(db, Employee, "email", { signal: AbortSignal.timeout(1) });
  createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Employee])] });
  const found = await db.open(placed).get({ ...key, account: "there" });
  void (found?.email satisfies string | undefined);
  const error: unknown = missing;
  if (isTableError(error, "unique-violation")) void (error.index satisfies string);
  if (isTableError(error, "throttled")) void (error.attempts satisfies number);
  if (isTableError(error) && error.code === "entity-too-large") {
    void (error.remedy satisfies string);
  }
  return error;
}

export async function refused() {
  // error: 'partition' does not exist
  await bulkDelete(db, "Employee", { partition: "Sales" });
  // error: '"readonly"' is not assignable
  controlledIndexes({ unregistered: "readonly" });
  // error: 'shard' does not exist
  await indexLifeCycle(db, Employee, "email").build({ shard: 2 });
  // error: Type 'string' is not assignable to type 'number'
  await verifyIndex(db, Employee, "email", { sample: "5%" });
  // error: is not assignable
  createWorker(db, { queue: "index-repairs", handlers: [indexRepairs] });
  // error: 'account' is missing
  await db.open(placed).get(key);
  const error: unknown = undefined;
  // error: '"unique"' is not assignable
  isTableError(error, "unique");
  // error: Property 'attempts' does not exist
  if (isTableError(error, "unique-violation")) error.attempts;
}
