import { existsSync, readFileSync } from "node:fs";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { openAccountIds } from "@rowhouse/server/catalog/account-ids";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import { openCatalog } from "@rowhouse/server/catalog/open-catalog";
import { systemClock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { partitionPrefixRange } from "@rowhouse/server/engine/key-codec";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { planIndexes } from "@rowhouse/server/query/indexes/index-planner";
import { planQuery } from "@rowhouse/server/query/planner";
import { compilePredicate } from "@rowhouse/server/query/predicate";
import { EntityStore } from "@rowhouse/server/table/entity-store";
import { IndexSource } from "@rowhouse/server/table/indexes/index-source";
import { openIndexes } from "@rowhouse/server/table/indexes/open-indexes";
import { PageReader } from "@rowhouse/server/table/page-reader";
import { tablePrefix } from "@rowhouse/server/table/table-keys";
import type { TableValue } from "@rowhouse/server/table/table-value";
import { TABLE_DOCUMENTS } from "@rowhouse/server/xml/document-rules";
import type { Bench } from "./harness/bench.ts";
import type { Question } from "./harness/question.ts";
import { finding } from "./harness/results.ts";
import { measureBuilds } from "./index-build.ts";

const WRITERS = 64;
const BLOCK = 1000;

/** Tables that differ only in their indexes: by values in random order, or by one that grows. */
const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  none: [],
  "one random": ["R1:String"],
  "one growing": ["Day:Int32"],
  "one local": ["PartitionKey,R1:String"],
  "four random": ["R1:String", "R2:String", "R3:String", "R4:String"],
};

/**
 * Writes and queries in this process, without HTTP: by CPU, because the differences sought are smaller than a busy
 * machine's. Builds beside point queries over HTTP.
 */
export const indexTables: Question = {
  name: "index-tables",
  asks: "What does an index cost writers, what does it save queries, and what does its building delay?",
  async run(bench) {
    const engine = await openLmdbEngine({ path: bench.folder("index-tables") });
    try {
      const lab = await openLab(engine);
      await measureInserts(bench, lab);
      await measureQueries(bench, lab);
    } finally {
      await engine.close();
    }
    await measureBuilds(bench);
  },
};

type Lab = Awaited<ReturnType<typeof openLab>>;

async function openLab(engine: Engine) {
  const accountIds = await openAccountIds(engine, ["bench"]);
  const onError = (error: unknown) => {
    throw error;
  };
  const foundation = { engine, clock: systemClock, ageClock: systemClock, accountIds, onError };
  const { catalog, reaper } = openCatalog<TableValue>(foundation, {
    space: KEY_SPACES.tableCatalog,
    rules: TABLE_DOCUMENTS,
    contentsOf: (accountId, id) => partitionPrefixRange(tablePrefix(accountId, id)),
  });
  const entities = new EntityStore(engine, catalog, systemClock);
  return { engine, catalog, entities, indexes: openIndexes(foundation, catalog, reaper) };
}

async function declare({ catalog, indexes }: Lab, table: string, keys: readonly string[]) {
  await catalog.create("bench", table, { policies: [] });
  for (const [at, key] of keys.entries()) {
    const name = `${table}By${at}`;
    await indexes.catalog.create("bench", { name, table, key, rate: 0 });
    await indexes.builder.build();
  }
}

/** Blocks of inserts into each table in turn, so that all of them meet the same noise. */
async function measureInserts(bench: Bench, lab: Lab): Promise<void> {
  const names = Object.keys(VARIANTS);
  const tables = names.map((name) => `T${name.replaceAll(" ", "")}`);
  for (const [at, name] of names.entries()) await declare(lab, tables[at]!, VARIANTS[name]!);
  const micros = names.map(() => 0);
  const written = names.map(() => 0);
  const rounds = bench.options.short ? 6 : 40;
  for (let round = 0; round < rounds; round++) {
    for (const [at, table] of tables.entries()) {
      const bytesBefore = bytesWritten();
      const spent = await cpuOf(() => insertBlock(lab, table, round));
      // The first round also compiles the code.
      if (round === 0) continue;
      micros[at] = micros[at]! + spent;
      written[at] = written[at]! + bytesWritten() - bytesBefore;
    }
  }
  const rows = (rounds - 1) * BLOCK;
  bench.record({
    name: `inserts by ${WRITERS} writers, ${rounds * BLOCK} entities of 1 KB in each table`,
    contenders: [],
    findings: [
      finding("CPU of an insert without index (µs)", micros[0]! / rows),
      ...names
        .slice(1)
        .flatMap((name, at) => [
          finding(`${name}: CPU added (µs)`, (micros[at + 1]! - micros[0]!) / rows),
          finding(`${name}: pages written over none`, written[at + 1]! / written[0]!),
        ]),
      ...(
        [
          ["one random", 0.55],
          ["one growing", 0.85],
          ["one local", 0.6],
          ["four random", 0.25],
        ] as const
      ).map(([name, atLeast]) =>
        finding(
          `inserts for the same CPU, ${name} index over none`,
          micros[0]! / micros[names.indexOf(name)]!,
          {
            atLeast,
          },
        ),
      ),
    ],
  });
}

function insertBlock({ entities }: Lab, table: string, round: number): Promise<void> {
  return eachOf(BLOCK, async (i) => {
    await entities.commit("bench", table, [insertion(round * BLOCK + i)]);
  });
}

function insertion(i: number) {
  const keys = { partitionKey: `p${i % 50}`, rowKey: String(i).padStart(9, "0") };
  const random = (salt: number) => (Math.imul(i + salt, 2_654_435_761) >>> 0).toString(36);
  const [R1, R2, R3, R4] = [random(1), random(2), random(3), random(4)];
  const properties = {
    R1,
    R2,
    R3,
    R4,
    Day: i,
    Tens: Math.floor(i / 10),
    Thousands: i % 50,
    Fill: "x".repeat(850),
  };
  const entity = decodeEntity(new TextEncoder().encode(JSON.stringify(properties)), keys);
  return { kind: "insert", ...keys, entity, ifMatch: undefined } as const;
}

async function measureQueries(bench: Bench, lab: Lab): Promise<void> {
  const rows = bench.options.short ? 50_000 : 1_000_000;
  await declare(lab, "Large", []);
  await eachOf(rows / 100, async (batch) => {
    // Two entities of each of the fifty partitions.
    for (let i = 0; i < 50; i++) {
      const pair = [insertion(batch * 100 + i), insertion(batch * 100 + i + 50)];
      await lab.entities.commit("bench", "Large", pair);
    }
  });
  const began = performance.now();
  await lab.indexes.catalog.create("bench", {
    ...{ name: "ByTens", table: "Large", key: "Tens:Int32", rate: 0 },
  });
  await lab.indexes.builder.build();
  const seconds = (performance.now() - began) / 1000;
  await declareMore(lab, "Thousands:Int32", "ByThousands");
  const each = async (count: number, work: (i: number) => unknown) => {
    // As many again first: the code is compiled while it is used.
    for (let i = 0; i < count; i++) await work(i);
    const spent = await cpuOf(async () => {
      for (let i = 0; i < count; i++) await work(i);
    });
    return spent / count;
  };
  const point = await each(20_000, (i) =>
    query(lab, `PartitionKey eq 'p${i % 50}' and RowKey eq '${String(i).padStart(9, "0")}'`, 1),
  );
  const tens = await each(2000, (i) => query(lab, `Tens eq ${i * 2}`, 10));
  const thousand = await each(50, (i) => query(lab, `Thousands eq ${i % 50}`, 1000));
  bench.record({
    name: `queries over ${rows} entities`,
    contenders: [],
    findings: [
      finding("entities built per second, as fast as possible", rows / seconds, {
        atLeast: 80_000,
      }),
      finding("CPU of a point query (µs)", point),
      finding("CPU of ten matches (µs), where HTTP adds the same to each query", tens),
      finding("CPU of one of 1,000 matches over a point query", thousand / 1000 / point, {
        atMost: 0.5,
      }),
    ],
  });
}

async function declareMore({ indexes }: Lab, key: string, name: string): Promise<void> {
  await indexes.catalog.create("bench", { name, table: "Large", key, rate: 0 });
  await indexes.builder.build();
}

/** A page, as the operation reads it. */
async function query({ engine, entities }: Lab, filter: string, expected: number): Promise<void> {
  const opened = await entities.openTable("bench", "Large");
  const plan = planQuery(parseFilter(filter));
  const predicate = plan.residual && compilePredicate(plan.residual);
  const bounds = {
    prefix: opened.prefix,
    entitiesMax: 1000,
    bytesMax: 2 ** 23,
    deadline: Number.POSITIVE_INFINITY,
  };
  const indexPlan = planIndexes(
    plan,
    opened.indexes.map(({ index }) => index),
  );
  const source =
    indexPlan &&
    predicate &&
    new IndexSource({
      ...bounds,
      ...{ engine, clock: systemClock, predicate, plan: indexPlan, indexes: opened.indexes },
    });
  let found = 0;
  const take = () => {
    found++;
  };
  await new PageReader(engine, systemClock, { ...bounds, plan, predicate, source, take }).read();
  if (found !== expected) throw new Error(`${filter} found ${found} entities, not ${expected}.`);
}

async function eachOf(count: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const writer = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

/** Pages that this process made dirty, in bytes; 0 where the system does not count them. */
function bytesWritten(): number {
  if (!existsSync(IO)) return 0;
  return Number(/^write_bytes: (\d+)$/m.exec(readFileSync(IO, "utf8"))?.[1] ?? 0);
}

const IO = "/proc/self/io";

/** Microseconds of this process. */
async function cpuOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
