import { type Database, f, k } from "@rowhouse/patterns";
import { logTail } from "@rowhouse/patterns/log-tail";
import { firstBroken, type Pattern, rowsOf, valueIn } from "./pattern.ts";

// What is shown:
const Expense = logTail("EmployeeExpense", {
  fields: { employee: f.string(), filedAt: f.date(), day: f.string(), amount: f.int32() },
  stream: [k.str("employee")],
  at: "filedAt",
});

const dayOf = (time: Date) => time.toISOString().slice(0, 10);

const file = (db: Database, amount: number, filedAt: Date) =>
  db.open(Expense).append({ employee: "000123", filedAt, day: dayOf(filedAt), amount });

const latest = (db: Database, count: number) =>
  db.open(Expense).tail({ employee: "000123" }, count);

const trim = (db: Database, before: Date) =>
  db.open(Expense).trimBefore({ employee: "000123" }, before);
// Until here.

const DAY_MS = 24 * 3_600_000;
/** The last tick of 9999, in ticks of 100 ns since the year 1, and 1970 in them. */
const TICKS_MAX = 3155378975999999999n;
const TICKS_1970 = 621355968000000000n;
const ago = (db: Database, days: number) => new Date(db.clock.now() - days * DAY_MS);

export const logTailPattern: Pattern = {
  title: "Log tail",
  about:
    "A query returns the first rows in key order, so the newest entry must have the lowest key: the row key begins with the time, counted down. An entry is one request, and a trim that stops halfway is run again.",
  async prepare(db) {
    await db.createTables(Expense);
    for (const days of [3, 2, 1]) await file(db, 10 * days, ago(db, days));
  },
  actions: [
    {
      name: "File an expense",
      async run(db) {
        await file(db, 40, ago(db, 0));
        return "Filed: it is the first row.";
      },
    },
    {
      name: "File one of the day before yesterday",
      async run(db) {
        await file(db, 15, ago(db, 2));
        return "Filed: it is where its time is.";
      },
    },
    {
      name: "Read the latest 2",
      async run(db) {
        const entries = await latest(db, 2);
        return `The latest: ${entries.map(({ amount }) => amount).join(", ")}.`;
      },
    },
    {
      name: "Trim what is older than two days",
      async run(db) {
        const deleted = await trim(db, new Date(ago(db, 2).getTime() - 60_000));
        return `${deleted} deleted.`;
      },
    },
  ],
  invariants: [
    {
      says: "The rows are stored newest first",
      when: "always",
      broken(world) {
        const rows = rowsOf(world, "EmployeeExpense");
        const days = rows.map((row) => valueIn(row, "day"));
        return firstBroken(
          rows.keys(),
          (i) => i > 0 && days[i]! > days[i - 1]! && `${days[i]} after ${days[i - 1]}`,
        );
      },
    },
    {
      says: "Every row key is the time of its entry, counted down",
      when: "always",
      broken: (world) =>
        firstBroken(rowsOf(world, "EmployeeExpense"), (row) => {
          const ticks = TICKS_MAX - BigInt(row.rowKey.slice(0, 19)) - TICKS_1970;
          const day = dayOf(new Date(Number(ticks / 10_000n)));
          return day !== valueIn(row, "day") && `${row.rowKey} is of ${day}`;
        }),
    },
  ],
};
