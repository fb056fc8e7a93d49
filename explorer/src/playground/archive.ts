import { type Database, entity, f, isTableError, k } from "@rowhouse/patterns";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { backTo, saga } from "@rowhouse/patterns/saga";
import { firstBroken, type Pattern, queuesAreEmpty, rowsOf, type World } from "./pattern.ts";

// What is shown:
const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), name: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
});
const Archive = Employee.in("EmployeeArchive");

const archiveEmployee = saga("archive-employee", (s) =>
  s
    .input<{ readonly dept: string; readonly id: number }>()
    .step("copy", async ({ input, db }) => {
      const employee = await db.open(Employee).get(input);
      if (!employee) return null;
      const { etag: _etag, ...values } = employee;
      await db.open(Archive).upsert(values);
      return employee;
    })
    .step("remove", async ({ db, results }) => {
      if (!results.copy) return undefined;
      try {
        await db.open(Employee).deleteIfUnchanged(results.copy);
        return undefined;
      } catch (error) {
        if (isTableError(error, "conflict")) return backTo("copy");
        throw error;
      }
    }),
);

const worker = (db: Database) =>
  createWorker(db, { queue: "work", handlers: [archiveEmployee], concurrency: 1 });

async function archive(db: Database, id: number) {
  await archiveEmployee.start(db, { id: `archive-${id}`, input: { dept: "Sales", id } });
  await worker(db).drain();
}

// Another worker. The message that the dead one had received is visible again after a minute.
async function recover(db: Database) {
  await db.clock.sleep(61_000);
  await worker(db).drain();
}
// Until here.

const IDS = [456, 457, 458];
const rowKeyOf = (id: number) => `empid_${String(id).padStart(6, "0")}`;

function placesOf(world: World, id: number): string[] {
  const tables = ["Employee", "EmployeeArchive"];
  return tables.filter((table) =>
    rowsOf(world, table).some(({ rowKey }) => rowKey === rowKeyOf(id)),
  );
}

export const archivePattern: Pattern = {
  title: "Eventually consistent transaction",
  about:
    "An employee who left moves from one table to another: a copy, then a removal, which no transaction can hold together. A message drives both. A process that dies between them leaves the employee in both tables, until the message is seen again and a worker goes on where the other stopped.",
  queues: ["work", "work-poison"],
  async prepare(db) {
    await db.createTables(Employee, Archive, archiveEmployee);
    await worker(db).createQueues();
    for (const id of IDS) await db.open(Employee).insert({ dept: "Sales", id, name: `No. ${id}` });
  },
  actions: IDS.map((id) => ({
    name: `Archive ${id}`,
    async run(db) {
      await archive(db, id);
      return `The worker has nothing left to do.`;
    },
  })),
  recovery: {
    name: "Another worker",
    async run(db) {
      await recover(db);
      return "A minute has passed, and a worker did what there was to do.";
    },
  },
  invariants: [
    {
      says: "Every employee is in one of the tables",
      when: "always",
      broken: (world) =>
        firstBroken(IDS, (id) => placesOf(world, id).length === 0 && `${id} is in neither`),
    },
    {
      says: "No employee is in both",
      when: "at rest",
      broken: (world) =>
        firstBroken(IDS, (id) => placesOf(world, id).length > 1 && `${id} is in both`),
    },
    queuesAreEmpty,
  ],
};
