import { type Database, entity, f, k } from "@rowhouse/patterns";
import { indexRepairs } from "@rowhouse/patterns/index-repairs";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { firstBroken, type Pattern, queuesAreEmpty, rowsOf, valueIn } from "./pattern.ts";

// What is shown:
const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), email: f.string(), name: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    email: remoteIndex({
      table: "EmployeeByEmail",
      partition: [k.hash("email", 8)],
      row: [k.str("email")],
      unique: true,
      copy: ["name"],
    }),
  },
});

const worker = (db: Database) =>
  createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Employee])] });

const hire = (db: Database, dept: string, id: number, email: string, name: string) =>
  db.open(Employee).insert({ dept, id, email, name });

const readdress = (db: Database, dept: string, id: number, email: string) =>
  db.open(Employee).update({ dept, id }, () => ({ email }));

const find = (db: Database, email: string) => db.open(Employee).by.email.get({ email });

// The message of a writer that died is visible after a minute and a half; what is too young to be deleted then is
// looked at again.
async function recover(db: Database) {
  for (let round = 0; round < 3; round++) {
    await db.clock.sleep(90_000);
    await worker(db).drain();
  }
}
// Until here.

let hired = 0;

export const remoteIndexPattern: Pattern = {
  title: "Inter-partition secondary index",
  about:
    "Employees of all departments are found by address, and no two have the same: the entries are in a table of their own, which no transaction reaches together with the entity. The writer claims an entry, commits the entity, and finishes the entry; a message that it sent before makes a worker finish for a writer that died. An entry that nobody needs is deleted after a minute at the earliest, because another writer may rely on it.",
  queues: ["index-repairs", "index-repairs-poison"],
  async prepare(db) {
    await db.createTables(Employee);
    await worker(db).createQueues();
    await hire(db, "Sales", 223, "jonesj@contoso.com", "Jones");
    await hire(db, "Legal", 7, "leem@contoso.com", "Lee");
  },
  actions: [
    {
      name: "Hire somebody",
      async run(db) {
        const id = 300 + hired++;
        await hire(db, "Sales", id, `new${id}@contoso.com`, `New ${id}`);
        return `Employee ${id} is there.`;
      },
    },
    {
      name: "Give Jones another address",
      async run(db) {
        const { email } = await readdress(db, "Sales", 223, `jones${++hired}@contoso.com`);
        return `Jones has ${email}.`;
      },
    },
    {
      name: "Give Jones Lee's address",
      async run(db) {
        const { email } = await readdress(db, "Sales", 223, "leem@contoso.com");
        return `Jones has ${email}.`;
      },
    },
    {
      name: "Find Lee by address",
      run: async (db) => `Found: ${(await find(db, "leem@contoso.com"))?.name ?? "nobody"}.`,
    },
  ],
  recovery: {
    name: "A worker",
    async run(db) {
      await recover(db);
      return "Minutes have passed, and a worker did what there was to do.";
    },
  },
  invariants: [
    {
      says: "Every employee is found by the address",
      when: "always",
      broken: (world) =>
        firstBroken(rowsOf(world, "Employee"), (row) => {
          const email = valueIn(row, "email");
          const entry = rowsOf(world, "EmployeeByEmail").find(({ rowKey }) => rowKey === email);
          return entry && valueIn(entry, "baseRK") === row.rowKey
            ? undefined
            : `${row.rowKey} has no entry ${email}`;
        }),
    },
    {
      says: "Every entry leads to an employee with its address",
      when: "at rest",
      broken: (world) =>
        firstBroken(rowsOf(world, "EmployeeByEmail"), (entry) => {
          const base = rowsOf(world, "Employee").find(
            ({ partitionKey, rowKey }) =>
              partitionKey === valueIn(entry, "basePK") && rowKey === valueIn(entry, "baseRK"),
          );
          return base && valueIn(base, "email") === entry.rowKey
            ? undefined
            : `${entry.rowKey} does not`;
        }),
    },
    {
      says: "No entry is only claimed",
      when: "at rest",
      broken: (world) =>
        firstBroken(
          rowsOf(world, "EmployeeByEmail"),
          (entry) => "rh_s" in entry.properties && entry.rowKey,
        ),
    },
    queuesAreEmpty,
  ],
};
