import { type Database, f, k, type StoredEntity } from "@rowhouse/patterns";
import { wide } from "@rowhouse/patterns/wide";
import { firstBroken, type Pattern, rowsOf, valueIn, type World } from "./pattern.ts";

// What is shown:
const hours = f.double().optional();
const Week = wide("WeekStats", {
  version: 1,
  fields: {
    ...{ dept: f.string(), id: f.int32() },
    ...{ mon: hours, tue: hours, wed: hours, thu: hours, fri: hours, sat: hours, sun: hours },
  },
  key: { partition: [k.str("dept")], row: [k.uint("id", 6)] },
  perPart: 3, // 248 otherwise; low here to show several parts
});

const write = (db: Database, id: number, each: number) =>
  db.open(Week).write({ dept: "Sales", id, mon: each, tue: each, wed: each, thu: each, fri: each });

const workSunday = (db: Database, id: number) => db.open(Week).merge({ dept: "Sales", id, sun: 4 });

const endsOfWeek = (db: Database, id: number) =>
  db.open(Week).merge({ dept: "Sales", id, mon: 2, sun: 2 });

const read = (db: Database, id: number) => db.open(Week).read({ dept: "Sales", id });
// Until here.

/** The parts of each entity, by what their row keys have in common. */
function entitiesIn(world: World): StoredEntity[][] {
  const entities = new Map<string, StoredEntity[]>();
  for (const row of rowsOf(world, "WeekStats")) {
    const name = row.rowKey.slice(0, 6);
    entities.set(name, [...(entities.get(name) ?? []), row]);
  }
  return [...entities.values()];
}

let hoursADay = 7;

export const widePattern: Pattern = {
  title: "Wide entity",
  about:
    "An entity with more fields than a row holds is in several rows of a partition, which one transaction writes. A reader gets the parts of one write, never of two.",
  async prepare(db) {
    await db.createTables(Week);
    await write(db, 123, 8);
  },
  actions: [
    {
      name: "Write the whole week",
      async run(db) {
        hoursADay = (hoursADay % 10) + 1;
        await write(db, 123, hoursADay);
        return `${hoursADay} hours a day, in three rows.`;
      },
    },
    {
      name: "Work on Sunday",
      async run(db) {
        await workSunday(db, 123);
        return "One part changed.";
      },
    },
    {
      name: "Change the first and the last day",
      async run(db) {
        await endsOfWeek(db, 123);
        return "The fields are in two parts: all are written.";
      },
    },
    {
      name: "Read the week",
      async run(db) {
        const week = await read(db, 123);
        return `Monday ${week?.mon ?? "–"}, Sunday ${week?.sun ?? "–"}.`;
      },
    },
  ],
  invariants: [
    {
      says: "All parts of an entity are of the same whole write",
      when: "always",
      broken: (world) =>
        firstBroken(entitiesIn(world), (parts) => {
          const writes = new Set(parts.map((part) => valueIn(part, "rh_x")));
          return writes.size > 1 && `${parts[0]!.rowKey} is of ${[...writes].join(" and ")}`;
        }),
    },
    {
      says: "There are as many parts as each of them says",
      when: "always",
      broken: (world) =>
        firstBroken(entitiesIn(world), (parts) => {
          const said = Number.parseInt(valueIn(parts[0]!, "rh_x"), 10);
          return said !== parts.length && `${parts.length} of ${said}`;
        }),
    },
  ],
};
