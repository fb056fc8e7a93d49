import type { TableClient, TransactionAction } from "@azure/data-tables";
import { entity, f, k } from "@rowhouse/patterns";
import { indexLifeCycle } from "@rowhouse/patterns/index-life-cycle";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { deptOf, type PatternBench, typed } from "./works.ts";

/** Persons, with an index in another table that is built by the library and by hand. */
const Person = entity("Person", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), town: f.string(), age: f.int32() },
  key: { partition: [k.str("dept")], row: [k.lit("p"), k.uint("id", 8)] },
  indexes: {
    byTown: remoteIndex({
      table: "PersonByTown",
      partition: [k.str("town")],
      row: [k.str("dept"), k.uint("id", 8)],
      mode: "inline",
    }),
  },
});

const BATCH = 100;

/** One round's work: each function returns the number of entities it has indexed. */
export interface IndexBuild {
  library(): Promise<number>;
  byHand(): Promise<number>;
}

/** Creates this many persons in new tables, with no state of their index. */
export async function prepareBuild(bench: PatternBench, persons: number): Promise<IndexBuild> {
  const { database } = bench;
  for (const table of [...Person.tables, "rhcontrol"]) await database.tables.deleteTable(table);
  await database.tables.createTable("rhcontrol");
  await fill(bench, persons);
  const cycle = indexLifeCycle(database, Person, "byTown");
  await cycle.disable();
  return {
    library: async () => (await cycle.build({ rate: Number.MAX_SAFE_INTEGER })).done,
    byHand: () => buildByHand(bench.client("Person"), bench.client("PersonByTown")),
  };
}

async function fill({ client, database }: PatternBench, persons: number): Promise<void> {
  await database.createTables(Person);
  const { rows } = Person;
  const token = database.writeToken();
  for (let from = 0; from < persons; from += BATCH) {
    const actions = Array.from({ length: BATCH }, (_, i): TransactionAction => {
      const row = { dept: deptOf(from / BATCH), id: from + i, town: `town${i % 37}`, age: i };
      return ["create", { ...rows.key(row, database.profile), ...rows.encode(row, token) }];
    });
    await client("Person").submitTransaction(actions);
  }
}

/**
 * What careful hand-written code does: page by page, 16 entities at once; read the entry and then the base
 * again, write, and read the base once more, because other clients may write during the build.
 */
async function buildByHand(bases: TableClient, entries: TableClient): Promise<number> {
  let done = 0;
  for await (const page of bases.listEntities().byPage({ maxPageSize: 200 })) {
    let next = 0;
    const worker = async () => {
      for (let at = next++; at < page.length; at = next++) {
        await indexByHand(bases, entries, page[at]!);
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    done += page.length;
  }
  return done;
}

interface Found {
  readonly partitionKey?: string;
  readonly rowKey?: string;
  readonly town?: unknown;
}

async function indexByHand(bases: TableClient, entries: TableClient, found: Found): Promise<void> {
  const { partitionKey: dept = "", rowKey = "" } = found;
  const town = String(found.town);
  const entryKey = `${dept}_${rowKey.slice(2)}`;
  await entries.getEntity(town, entryKey).catch(() => undefined);
  const base = await bases.getEntity(dept, rowKey);
  await entries.createEntity({
    partitionKey: town,
    rowKey: entryKey,
    age: { type: "Int32", value: String(base.age) },
    town: typed(town),
    basePK: typed(dept),
    baseRK: typed(rowKey),
    rh_t: typed("Person.byTown:1"),
    rh_w: typed(String(base.rh_w)),
  });
  await bases.getEntity(dept, rowKey);
}
