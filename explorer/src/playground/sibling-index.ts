import { type Database, entity, f, k } from "@rowhouse/patterns";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";
import { firstBroken, type Pattern, rowsOf, valueIn } from "./pattern.ts";

// What is shown:
const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), email: f.string(), name: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true, copy: ["name"] }),
  },
});

const hire = (db: Database, id: number, email: string, name: string) =>
  db.open(Employee).insert({ dept: "Sales", id, email, name });

const readdress = (db: Database, id: number, email: string) =>
  db.open(Employee).update({ dept: "Sales", id }, () => ({ email }));

const find = (db: Database, email: string) =>
  db.open(Employee).by.email.get({ dept: "Sales", email });
// Until here.

const isEmployee = ({ rowKey }: { readonly rowKey: string }) => rowKey.startsWith("empid_");
let hired = 0;

export const siblingIndexPattern: Pattern = {
  title: "Intra-partition secondary index",
  about:
    "An entity is found by another value, too: a second row in its own partition leads to it. One transaction writes both, so a process may die before any request, and nothing is left to repair.",
  async prepare(db) {
    await db.createTables(Employee);
    await hire(db, 223, "jonesj@contoso.com", "Jones");
    await hire(db, 224, "leem@contoso.com", "Lee");
  },
  actions: [
    {
      name: "Hire somebody",
      async run(db) {
        const id = 225 + hired++;
        await hire(db, id, `new${id}@contoso.com`, `New ${id}`);
        return `Employee ${id} is there.`;
      },
    },
    {
      name: "Give Jones another address",
      async run(db) {
        const { email } = await readdress(db, 223, `jones${++hired}@contoso.com`);
        return `Jones has ${email}.`;
      },
    },
    {
      name: "Give Jones Lee's address",
      run: async (db) => `Jones has ${(await readdress(db, 223, "leem@contoso.com")).email}.`,
    },
    {
      name: "Find Lee by address",
      run: async (db) => `Found: ${(await find(db, "leem@contoso.com"))?.name ?? "nobody"}.`,
    },
  ],
  invariants: [
    {
      says: "Every employee is found by the address",
      when: "always",
      broken: (world) => {
        const rows = rowsOf(world, "Employee");
        return firstBroken(rows.filter(isEmployee), (row) => {
          const rowKey = `email_${valueIn(row, "email")}`;
          const entry = rows.find((each) => each.rowKey === rowKey);
          return entry && valueIn(entry, "baseRK") === row.rowKey
            ? undefined
            : `${row.rowKey} has no entry ${rowKey}`;
        });
      },
    },
    {
      says: "Every entry leads to an employee with its address",
      when: "always",
      broken: (world) => {
        const rows = rowsOf(world, "Employee");
        return firstBroken(
          rows.filter((row) => !isEmployee(row)),
          (entry) => {
            const base = rows.find(({ rowKey }) => rowKey === valueIn(entry, "baseRK"));
            return base && entry.rowKey === `email_${valueIn(base, "email")}`
              ? undefined
              : `${entry.rowKey} leads to ${base?.rowKey ?? "nobody"}`;
          },
        );
      },
    },
  ],
};
