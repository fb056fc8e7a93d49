import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { connect, type Database, entity, f, isTableError, k } from "@rowhouse/patterns";
import { indexLifeCycle } from "@rowhouse/patterns/index-life-cycle";
import { repairIndex } from "@rowhouse/patterns/index-scrub";
import { controlledIndexes } from "@rowhouse/patterns/index-states";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";
import { type Memory, memory } from "@rowhouse/patterns/testing";
import { adviseIndex } from "rowhouse/patterns/advise";
import {
  buildIndex,
  type IndexWork,
  retireIndex,
  scrubIndexes,
  showStates,
} from "rowhouse/patterns/index-work";
import { loadSchema } from "rowhouse/patterns/schema";
import { Employee } from "./schema.ts";

const file = fileURLToPath(new URL("schema.ts", import.meta.url));

interface Bench extends IndexWork {
  readonly backend: Memory;
  readonly told: string[];
}

/** Work over a memory endpoint whose clock only moves while something sleeps. */
async function begin(signal = new AbortController().signal): Promise<Bench> {
  const backend = memory();
  const database = connect({
    ...backend,
    indexStates: controlledIndexes({ unregistered: "readable" }),
  });
  await database.createTables(Employee);
  await database.queues?.createQueue("index-repairs");
  const told: string[] = [];
  const progress = (line: string) => told.push(line);
  return { schema: await loadSchema(file), database, signal, progress, backend, told };
}

/** Employees as written by a program that knew no index. */
async function insertBare({ database }: { readonly database: Database }, towns: readonly string[]) {
  const { rows } = Employee;
  for (const [id, town] of towns.entries()) {
    const row = { dept: "Sales", id, email: `e${id}@contoso.com`, town };
    const key = rows.key(row, database.profile);
    const properties = rows.encode(row, database.writeToken());
    await database.tables.commit("Employee", [{ kind: "insert", ...key, properties }]);
  }
}

describe("rowhouse patterns index", () => {
  it("disables an index for readers, builds it at the given rate and enables it again", async () => {
    const work = await begin();
    await insertBare(
      work,
      Array.from({ length: 450 }, (_, i) => `town${i % 7}`),
    );
    const startedAt = work.backend.clock.now();
    const { lines, found } = await buildIndex(work, "Employee.byTown", {
      rate: 100,
      register: true,
    });
    assert.deepEqual([lines, found], [["Employee.byTown is readable: 450 entities."], false]);
    assert.equal(work.told[0], "Employee.byTown was disabled; 450 entities, about 60 s");
    assert.match(work.told[1]!, /^200 of 450 entities, \d+ per second, \d+ s to go$/);
    // The 55 s of waiting for writers must not lower the reported speed.
    const speeds = work.told.slice(1).map((line) => Number(/(\d+) per second/.exec(line)?.[1]));
    assert.ok(Math.min(...speeds) > 50, work.told.join("\n"));
    assert.ok(work.backend.clock.now() - startedAt >= 54_000);
    const found3 = await work.database.open(Employee).by.byTown.range({ town: "town3" }).all();
    assert.equal(found3.length, 64);
  });

  it("builds in shards, with several commands at once", async () => {
    const work = await begin();
    await insertBare(
      work,
      Array.from({ length: 450 }, (_, i) => `town${i % 7}`),
    );
    const options = { rate: 1000, shards: 4, register: true } as const;
    const build = () => buildIndex(work, "Employee.byTown", options);
    for (const { lines } of await Promise.all([build(), build()])) {
      assert.deepEqual(lines, ["Employee.byTown is readable: 450 entities."]);
    }
    assert.match(work.told.join("\n"), /^450 of 450 entities, /m);
    const found3 = await work.database.open(Employee).by.byTown.range({ town: "town3" }).all();
    assert.equal(found3.length, 64);
  });

  it("shows the states of indexes, registered or not", async () => {
    const work = await begin();
    const { lines } = await showStates(work, "Employee");
    assert.match(lines.join("\n"), /^Employee\.byTown {2}readable {2}\(not registered/m);
    await retireIndex(work, "Employee.byTown");
    assert.deepEqual((await showStates(work, "Employee.byTown")).lines, [
      "Employee.byTown  disabled",
    ]);
  });

  it("neither verifies nor repairs an index that is not maintained", async () => {
    const work = await begin();
    await insertBare(work, ["Redmond"]);
    await buildIndex(work, "Employee.email", { rate: 200, register: true });
    await retireIndex(work, "Employee.byTown");
    const nobody = "Employee.byTown is disabled: its entries are not maintained";
    for (const verb of ["verify", "repair"] as const) {
      const { lines, found } = await scrubIndexes(work, "Employee", verb, {});
      assert.deepEqual([lines.at(-1), lines.length, found], [nobody, 2, false]);
      await assert.rejects(scrubIndexes(work, "Employee.byTown", verb, {}), new RegExp(nobody));
    }
    const past = repairIndex(work.database, Employee, "byTown");
    await assert.rejects(past, /is disabled: it cannot be repaired now/);
    await assert.rejects(work.database.tables.query("EmployeeByTown", {}), {
      code: "TableNotFound",
    });
  });

  it("reports an index whose definition differs from the registered one", async () => {
    const work = await begin();
    await indexLifeCycle(work.database, Employee, "byTown").disable();
    const { byTown: _byTown, ...others } = Employee.indexes;
    const Changed = entity("Employee", {
      version: 1,
      fields: { dept: f.string(), id: f.int32(), email: f.string(), town: f.string() },
      key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
      indexes: {
        ...others,
        byTown: remoteIndex({
          table: "EmployeeByTown",
          partition: [k.strCI("town")],
          row: [k.str("dept"), k.uint("id", 6)],
        }),
      },
    });
    const schema = { ...work.schema, entities: new Map([["Employee", Changed]]) };
    const { lines, found } = await showStates({ ...work, schema }, "Employee");
    assert.match(lines.join("\n"), /^Employee\.email {3}readable/m);
    assert.match(lines.join("\n"), /^Employee\.byTown {2}redefined {2}\(another definition/m);
    assert.equal(found, true);
  });

  it("retires an index: readers are refused and the entries are deleted", async () => {
    const work = await begin();
    const employees = work.database.open(Employee);
    await employees.insert({ dept: "Sales", id: 1, email: "a@b", town: "Redmond" });
    await retireIndex(work, "Employee.byTown");
    const read = employees.by.byTown.range({ town: "Redmond" }).all();
    await assert.rejects(read, (error) => isTableError(error, "index-not-readable"));
    const gone = work.database.tables.query("EmployeeByTown", {});
    await assert.rejects(gone, { code: "TableNotFound" });
  });

  it("finds the duplicates that a unique index was built over", async () => {
    const work = await begin();
    await insertBare(work, ["a", "b"]);
    const { rows } = Employee;
    const key = rows.key({ dept: "Sales", id: 1 }, work.database.profile);
    const email = { type: "String", value: "e0@contoso.com" } as const;
    const merge = { kind: "merge", ...key, ifMatch: "*", properties: { email } } as const;
    await work.database.tables.commit("Employee", [merge]);
    const { lines, found } = await buildIndex(work, "Employee.email", {
      rate: 200,
      register: true,
    });
    assert.equal(found, true);
    assert.deepEqual(lines, [
      "Employee.email is readable-dups: 2 entities.",
      "  Sales | empid_000001: another entity holds its value",
    ]);
    work.backend.clock.advance(120_000);
    assert.equal((await scrubIndexes(work, "Employee.email", "repair", {})).found, true);
  });

  for (const verb of ["verify", "repair"] as const) {
    it(`continues ${verb} where it was interrupted, at any index`, async () => {
      const folder = await mkdtemp(join(tmpdir(), "rowhouse-scrub-"));
      const resume = join(folder, "progress.json");
      try {
        for (let partsUntilStop = 1; partsUntilStop <= 2; partsUntilStop++) {
          const interrupted = new AbortController();
          const work = await begin(interrupted.signal);
          // All fit in memory at once, and there is no entry of either index.
          await insertBare(work, Array(450).fill("Redmond"));
          work.backend.clock.advance(120_000);
          let parts = 0;
          const stopped = {
            ...work,
            progress: (line: string) => {
              if (/ read, /.test(line) && ++parts === partsUntilStop) {
                interrupted.abort(new Error("Interrupted."));
              }
            },
          };
          await assert.rejects(scrubIndexes(stopped, "Employee", verb, { resume }), /Interrupted/);
          const other = scrubIndexes(work, "Employee.email", verb, { resume });
          await assert.rejects(other, new RegExp(`is of "${verb} Employee"`));
          const later = { ...work, signal: new AbortController().signal };
          const { found, lines } = await scrubIndexes(later, "Employee", verb, { resume });
          assert.equal(found, verb === "verify");
          for (const index of ["email", "byTown"]) {
            const report = lines.find((line) => line.startsWith(`Employee.${index}: `));
            assert.match(report ?? "", /: 450 entities and \d+ entries; 450 missing, 0 wrong/);
          }
          assert.deepEqual(await readdir(folder), []);
        }
        await writeFile(resume, "[]");
        const spoiled = scrubIndexes(await begin(), "Employee", verb, { resume });
        await assert.rejects(spoiled, /is not a progress file of verify or repair/);
      } finally {
        await rm(folder, { recursive: true });
      }
    });
  }

  it("builds, verifies and repairs lists of ids", async () => {
    const schema = await loadSchema(fileURLToPath(new URL("list-schema.ts", import.meta.url)));
    const work = { ...(await begin()), schema };
    await insertBare(work, ["a", "b", "a"]);
    const built = await buildIndex(work, "Employee.town", { rate: 200, register: true });
    assert.deepEqual(built.lines, ["Employee.town is readable: 3 entities."]);
    const gone = { partitionKey: "Sales", rowKey: "empid_000002", ifMatch: "*" };
    await work.database.tables.commit("Employee", [{ kind: "delete", ...gone }]);
    work.backend.clock.advance(120_000);
    const scrub = (verb: "verify" | "repair") => scrubIndexes(work, "Employee.town", verb, {});
    const verdict =
      "Employee.town: 2 entities and 3 entries; 0 missing, 0 wrong, 1 dangling, 0 duplicate, 0 too young to judge";
    const found = await scrub("verify");
    assert.deepEqual(
      [found.found, found.lines],
      [
        true,
        [
          verdict,
          "  dangling: Sales | empid_000002, entry Sales | town_a",
          "  a repair needs about 3 more requests",
        ],
      ],
    );
    assert.equal((await scrub("repair")).found, false);
    work.backend.clock.advance(120_000);
    assert.equal((await scrub("verify")).found, false);
  });

  it("ends a build immediately if it is interrupted, and continues it later", async () => {
    const stop = new AbortController();
    const work = await begin(stop.signal);
    await insertBare(
      work,
      Array.from({ length: 450 }, () => "town"),
    );
    const stopping = {
      ...work,
      progress: (line: string) => {
        if (line.startsWith("200 of")) stop.abort(new Error("Interrupted."));
      },
    };
    const options = { rate: 1000, register: true } as const;
    await assert.rejects(buildIndex(stopping, "Employee.byTown", options), /Interrupted/);
    work.backend.clock.advance(120_000);
    const later = { ...work, signal: new AbortController().signal };
    await buildIndex(later, "Employee.byTown", { rate: 1000 });
    assert.match(work.told.join("\n"), /was writeonly.*\n400 of 450/);
  });

  it("refuses unknown names of entities and indexes", async () => {
    const work = await begin();
    const build = (name: string) => buildIndex(work, name, { rate: 1 });
    await assert.rejects(
      build("Employe.byTown"),
      /no entity "Employe"; the module exports Employee\./,
    );
    await assert.rejects(build("Employee.town"), /no index "town"; it has email, byTown/);
    await assert.rejects(
      build("Employee"),
      /Employee is an entity; name one of its indexes: Employee\.email, Employee\.byTown/,
    );
  });
});

describe("rowhouse patterns advise", () => {
  it("judges an index by how selective its key is, and fields too", async () => {
    const work = await begin();
    const towns = Array.from({ length: 3000 }, (_, i) =>
      i % 10 === 0 ? `Village${i}` : "Redmond",
    );
    await insertBare(work, towns);
    const options = { reads: 1000, writes: 1, sample: 5000 };
    const ask = (name: string, more: object = {}) =>
      adviseIndex(work.schema, work.database, name, { ...options, ...more });
    const sparse = await ask("Employee.byTown");
    assert.match(sparse.lines[1] ?? "", /"Redmond" is in 90 % of the rows: 2703 requests/);
    assert.deepEqual([sparse.lines[0], sparse.found], ["Employee.byTown: sparse", true]);
    const kept = await ask("Employee.email", { total: 40_000 });
    assert.deepEqual([kept.lines[0], kept.found], ["Employee.email: keep", false]);
    await assert.rejects(
      ask("Employee.nothing"),
      /Employee has no "nothing"; Employee has email, byTown, dept/,
    );
  });

  it("knows that a remote index reads each entity unless its lookups are eventual, and that a partition key needs none", async () => {
    const { database, schema } = await begin();
    const Person = entity("Person", {
      version: 1,
      fields: { dept: f.string(), id: f.int32(), town: f.string() },
      key: { partition: [k.str("dept")], row: [k.lit("id"), k.uint("id", 6)] },
      indexes: {
        town: remoteIndex({
          table: "PersonByTown",
          partition: [k.str("town")],
          row: [k.str("dept"), k.uint("id", 6)],
          mode: "inline",
        }),
      },
    });
    await database.createTables(Person);
    for (let id = 0; id < 12; id++) {
      await database.open(Person).insert({ dept: "Sales", id, town: `t${id % 6}` });
    }
    const people = { ...schema, entities: new Map([["Person", Person]]) };
    const options = { reads: 1, writes: 1, sample: 100 };
    const lookup = async (more: object) => {
      const { lines } = await adviseIndex(people, database, "Person.town", { ...options, ...more });
      return lines.find((line) => line.startsWith("  a lookup"))?.replace(/ +/g, " ");
    };
    assert.equal(await lookup({}), " a lookup 3 requests");
    assert.equal(await lookup({ eventual: true }), " a lookup 1 request");
    await assert.rejects(
      adviseIndex(people, database, "Person.dept", options),
      /Person\.dept is the partition key/,
    );
  });

  it("counts the values that `each` returns, for the entities that `when` selects", async () => {
    const { database, schema } = await begin();
    const Film = entity("Film", {
      version: 1,
      fields: { studio: f.string(), id: f.int32(), genres: f.json<readonly string[]>() },
      key: { partition: [k.str("studio")], row: [k.uint("id", 6)] },
      indexes: {
        genre: remoteIndex({
          table: "FilmByGenre",
          partition: [k.str("genre")],
          row: [k.str("studio"), k.uint("id", 6)],
          each: { genre: ({ genres }) => genres as readonly string[] },
          when: ({ id }) => id !== 9,
          mode: "inline",
        }),
      },
    });
    await database.createTables(Film);
    for (let id = 0; id < 10; id++) {
      const genres = id === 9 ? ["never"] : [`g${id}`, `h${id % 3}`];
      await database.open(Film).insert({ studio: "UFA", id, genres });
    }
    const films = { ...schema, entities: new Map([["Film", Film]]) };
    const options = { reads: 1, writes: 1 };
    const all = await adviseIndex(films, database, "Film.genre", { ...options, sample: 100 });
    assert.match(all.lines.join("\n"), /^ {2}values +12, 1\.5 entities per value$/m);
    assert.match(all.lines.join("\n"), /^ {2}sampled +10 entities$/m);
    const some = await adviseIndex(films, database, "Film.genre", { ...options, sample: 5 });
    assert.match(some.lines.join("\n"), /^ {2}sampled +the first 5 entities; pass .* --total$/m);
  });

  it("fails with a reason if lists have too many combinations to count", async () => {
    const { database, schema } = await begin();
    const many = (prefix: string) => () => Array.from({ length: 3000 }, (_, i) => `${prefix}${i}`);
    const Film = entity("Film", {
      version: 1,
      fields: { studio: f.string(), id: f.int32() },
      key: { partition: [k.str("studio")], row: [k.lit("film"), k.uint("id", 6)] },
      indexes: {
        both: siblingIndex({
          row: k.ordered(k.lit("both"), k.str("actor"), k.str("genre"), k.uint("id", 6)),
          each: { actor: many("a"), genre: many("g") },
        }),
      },
    });
    const bare = entity("Film", {
      version: 1,
      fields: { studio: f.string(), id: f.int32() },
      key: { partition: [k.str("studio")], row: [k.lit("film"), k.uint("id", 6)] },
    });
    await database.createTables(Film);
    await database.open(bare).insert({ studio: "UFA", id: 1 });
    const films = { ...schema, entities: new Map([["Film", Film]]) };
    await assert.rejects(
      adviseIndex(films, database, "Film.both", { reads: 1, writes: 1, sample: 100 }),
      /Film\.both has more than 1000000 values in 1 entity, .*: use a smaller --sample\.$/,
    );
  });

  it("recommends to keep a unique index, however rarely it is read", async () => {
    const work = await begin();
    await insertBare(work, ["Redmond"]);
    const options = { reads: 0, writes: 1000, sample: 100 };
    const { lines, found } = await adviseIndex(
      work.schema,
      work.database,
      "Employee.email",
      options,
    );
    assert.deepEqual([lines[0], found], ["Employee.email: keep", false]);
  });
});
