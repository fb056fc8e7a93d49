import { connect, type Database } from "../index.ts";
import { indexLifeCycle } from "../index-life-cycle.ts";
import { controlledIndexes } from "../index-states.ts";
import { type Memory, memory } from "../testing.ts";
import { Indexed, Plain } from "./test-employee.ts";

export type Name = keyof typeof Indexed.indexes;
export const NAMES = ["near", "far"] as const;
export const MINUTE = 60_000;

export async function open(count = 5, backend = memory({ pageEntitiesMax: 2 })) {
  const plain = connect(backend);
  await prepareIn(plain, count);
  const db = connect({ ...backend, indexStates: controlledIndexes({ unregistered: "readable" }) });
  const of = (name: Name) => indexLifeCycle(db, Indexed, name);
  return { backend, db, plain, of };
}

export async function entriesOf({ tables }: Memory, name: Name): Promise<string[]> {
  const { entities } = await everything(tables, name === "near" ? "Employee" : "ByEmail");
  return entities
    .filter(({ properties }) => properties.rh_t?.value === `Employee.${name}:1`)
    .map(({ partitionKey, rowKey, properties }) => {
      const value = name === "near" ? rowKey.replace("email_", "") : partitionKey;
      return `${value} ${properties.baseRK?.value}${"rh_s" in properties ? " pending" : ""}`;
    })
    .sort();
}

export async function everything(tables: Memory["tables"], table: string) {
  const entities = [];
  for (let page = await tables.query(table, {}); ; ) {
    entities.push(...page.entities);
    if (!page.continuation) return { entities };
    page = await tables.query(table, { continuation: page.continuation });
  }
}

export async function expected(db: Database): Promise<string[]> {
  const all = await db.open(Plain).scan().all({ allow: "table-scan", because: "test" });
  return all.map(({ id, email }) => `${email} empid_${String(id).padStart(6, "0")}`).sort();
}

export async function prepareIn(db: Database, count: number): Promise<void> {
  await db.createTables(Indexed);
  await db.tables.createTable("rhcontrol");
  for (const name of ["index-repairs", "index-repairs-poison"]) await db.queues?.createQueue(name);
  for (let id = 1; id <= count; id++) {
    await db.open(Plain).insert({ dept: "Sales", id, email: `e${id}` });
  }
}
