import assert from "node:assert/strict";
import { connect, type Database, entity, f, isTableError, k } from "@rowhouse/patterns";
import { batch } from "@rowhouse/patterns/batch";
import { indexLifeCycle } from "@rowhouse/patterns/index-life-cycle";
import { repairIndex, verifyIndex } from "@rowhouse/patterns/index-scrub";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";
import { smallPartitions } from "@rowhouse/patterns/small-partitions";
import { intercept, withFaults } from "@rowhouse/patterns/testing";
import { Archive, archiveEmployee, Employee as Leaver } from "../../../patterns/samples/archive.ts";
import { seededRandom } from "../../support/seeded-random.ts";
import type { Endpoints } from "./target.ts";

/** One behavior that every endpoint must have. */
export interface Case {
  readonly name: string;
  run(endpoints: Endpoints): Promise<void>;
}

const Employee = entity("Employee", {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string(),
    lastName: f.string(),
    town: f.string().optional(),
    salary: f.double().optional(),
    total: f.int64().optional(),
    hiredAt: f.date().optional(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }),
    lastName: siblingIndex({
      row: [k.lit("last"), k.str("lastName"), k.uint("id", 6)],
      copy: ["email"],
    }),
    byTown: remoteIndex({
      table: "EmployeeByTown",
      partition: [k.str("town")],
      row: [k.str("dept"), k.uint("id", 6)],
      mode: "inline",
    }),
  },
});

const Note = entity("Note", {
  version: 1,
  fields: { book: f.string(), title: f.string(), part: f.string() },
  key: { partition: [k.str("book")], row: k.ordered(k.lit("n"), k.str("title"), k.str("part")) },
});

async function opened(endpoints: Endpoints): Promise<Database> {
  const database = connect(endpoints);
  await database.createTables(Employee, Note);
  return database;
}

const someone = (id: number, more: object = {}) => ({
  dept: "Sales",
  id,
  email: `e${id}@contoso.com`,
  lastName: "Jones",
  ...more,
});

const FewEmployees = smallPartitions(Employee, { maxRows: 6 });

type Few = ReturnType<typeof FewEmployees.open>;
type FewCondition = Parameters<ReturnType<Few["range"]>["where"]>[0];

/** Fails unless `smallPartitions` selects in memory the rows that the endpoint's own filter selects. */
async function assertSameRows(
  endpoints: Endpoints,
  optional: readonly object[],
  conditions: readonly FewCondition[],
): Promise<void> {
  const database = await opened(endpoints);
  const employees = database.open(Employee);
  for (const [id, more] of optional.entries()) await employees.insert(someone(id, more));
  const few = database.open(FewEmployees);
  const permit = { allow: "partition-scan", because: "to compare" } as const;
  for (const [i, condition] of conditions.entries()) {
    const found = await few.range({ dept: "Sales" }).where(condition).all();
    const expected = await employees.range({ dept: "Sales" }).where(condition).all(permit);
    assert.deepEqual(found, expected, `condition ${i}`);
  }
}

export const CASES: readonly Case[] = [
  {
    name: "after a random history, every index agrees with a plain map",
    async run(endpoints) {
      const database = await opened(endpoints);
      const employees = database.open(Employee);
      const seed = Math.floor(Math.random() * 2 ** 31);
      const random = seededRandom(seed);
      const below = (count: number) => Math.floor(random() * count);
      const model = new Map<number, ReturnType<typeof someone> & { town?: string | undefined }>();
      const pick = <Value>(values: readonly Value[]) => values[below(values.length)]!;
      for (let step = 0; step < 60; step++) {
        const id = below(5);
        const email = `${pick(["a", "b/c?", "d_e", "Zoë"])}@contoso.com`;
        const lastName = pick(["Jones", "Red Deer", "O'Neil"]);
        const town = pick(["Redmond", "Bellevue", undefined]);
        const next = { ...someone(id), email, lastName, ...(town && { town }) };
        const owner = [...model.values()].find((each) => each.email === email);
        const isFree = owner === undefined || owner.id === id;
        const verb = pick(["insert", "upsert", "update", "delete"] as const);
        const isThere = model.has(id);
        try {
          if (verb === "delete") await employees.delete({ dept: "Sales", id });
          else if (verb === "update")
            await employees.update(next, () => ({ email, lastName, town }));
          else await employees[verb](next);
          assert.ok(verb === "delete" || (verb === "insert" ? !isThere : true), `seed ${seed}`);
          if (verb === "delete") model.delete(id);
          else model.set(id, next);
        } catch (error) {
          const expected =
            (isTableError(error, "unique-violation") &&
              (!isFree || (verb === "insert" && isThere))) ||
            (isTableError(error, "not-found") && verb === "update" && !isThere);
          if (!expected)
            throw new Error(`seed ${seed}, step ${step}, ${verb} ${id}`, { cause: error });
        }
      }
      const sorted = [...model.values()].sort((a, b) => a.id - b.id);
      const plain = (rows: readonly object[]) =>
        rows.map(({ etag: _etag, ...row }: { etag?: string }) => row);
      assert.deepEqual(
        plain(await employees.range({ dept: "Sales" }).all()),
        plain(sorted),
        `seed ${seed}`,
      );
      for (const each of sorted) {
        const { dept, email } = each;
        const found = await employees.by.email.get({ dept, email });
        assert.equal(found?.id, each.id, `seed ${seed}`);
      }
      for (const town of ["Redmond", "Bellevue"]) {
        const there = sorted.filter((each) => each.town === town);
        const found = await employees.by.byTown.range({ town }).all();
        assert.deepEqual(plain(found), plain(there), `seed ${seed}`);
      }
      const jones = await employees.by.lastName
        .range({ dept: "Sales", lastName: { startsWith: "Red" } })
        .all();
      assert.equal(jones.length, sorted.filter((each) => each.lastName === "Red Deer").length);
    },
  },
  {
    name: "properties are read back with their declared types",
    async run(endpoints) {
      const employees = (await opened(endpoints)).open(Employee);
      const whole = someone(1, { salary: 4, total: 2n ** 60n });
      await employees.insert(whole);
      const { etag, ...row } = await employees.mustGet(whole);
      assert.deepEqual(row, whole);
      await employees.replaceIfUnchanged({ ...someone(1), etag });
      assert.equal((await employees.get(whole))?.salary, undefined);
      await assert.rejects(employees.replaceIfUnchanged({ ...someone(1), etag }), (error) =>
        isTableError(error, "conflict"),
      );
    },
  },
  {
    name: "keys of any text sort and delimit ranges as their values do",
    async run(endpoints) {
      const database = await opened(endpoints);
      const notes = database.open(Note);
      const texts = [
        "a",
        "a b",
        "a/b",
        "a?",
        "a#",
        "ab",
        "A",
        "_",
        "a_",
        "%",
        "\\",
        "é",
        "a.b",
        "~",
        "!",
        "'",
      ];
      await batch(database, (plan) => {
        for (const title of texts) plan.insert(Note, { book: "b/1", title, part: "x" });
      });
      const titles = async (query: object) =>
        (await notes.range({ book: "b/1", ...query }).all()).map(({ title }) => title);
      const sorted = [...texts].sort((a, b) => (a < b ? -1 : 1));
      assert.deepEqual(await titles({}), sorted);
      const within = sorted.filter((title) => title.startsWith("a"));
      assert.deepEqual(await titles({ title: { startsWith: "a" } }), within);
      const above = sorted.filter((title) => title > "a" && title <= "ab");
      assert.deepEqual(await titles({ title: { gt: "a", lte: "ab" } }), above);
    },
  },
  {
    name: "a cursor continues with the next page, even in another process",
    async run(endpoints) {
      const database = await opened(endpoints);
      await batch(database, (plan) => {
        for (let id = 0; id < 60; id++) plan.insert(Employee, someone(id));
      }).catch(() => undefined);
      const notes = database.open(Note);
      for (let i = 0; i < 25; i++) {
        await notes.insert({ book: "p", title: `t${String(i).padStart(2, "0")}`, part: "x" });
      }
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const again = connect(endpoints).open(Note).range({ book: "p" }).limit(7);
        const page = await again.page(cursor);
        assert.ok(page.items.length <= 7);
        seen.push(...page.items.map(({ title }) => title));
        cursor = page.cursor;
      } while (cursor);
      assert.deepEqual(
        seen,
        Array.from({ length: 25 }, (_, i) => `t${String(i).padStart(2, "0")}`),
      );
    },
  },
  {
    name: "conditions on properties of every type find the matching entities",
    async run(endpoints) {
      const employees = (await opened(endpoints)).open(Employee);
      for (let id = 0; id < 6; id++) {
        await employees.insert(someone(id, { salary: id / 2, total: BigInt(id) << 40n }));
      }
      const ids = async (rows: Promise<{ id: number }[]>) => (await rows).map(({ id }) => id);
      const permit = { allow: "partition-scan", because: "this is a test" } as const;
      const all = employees.range({ dept: "Sales" });
      assert.deepEqual(await ids(all.where((e) => e.salary.gt(1)).all(permit)), [3, 4, 5]);
      const big = all.where((e) => e.total.gte(4n << 40n).or(e.email.eq("e0@contoso.com")));
      assert.deepEqual(await ids(big.all(permit)), [0, 4, 5]);
      const half = all.where((e) => e.salary.eq(0.5).and(e.lastName.ne("Smith").not().not()));
      assert.deepEqual(await ids(half.all(permit)), [1]);
    },
  },
  {
    name: "a batch of 250 over partitions returns results in order and fails only the conflicting insert",
    async run(endpoints) {
      const database = await opened(endpoints);
      const notes = database.open(Note);
      await notes.insert({ book: "b1", title: "t007", part: "x" });
      const results = await batch(database, (plan) => {
        for (let i = 0; i < 250; i++) {
          const title = `t${String(i).padStart(3, "0")}`;
          plan.insert(Note, { book: `b${i % 2}`, title, part: "x" });
        }
      });
      const failed = results.flatMap((result, i) => (result.ok ? [] : [i]));
      assert.deepEqual(failed, [7]);
      assert.equal((await notes.range({ book: "b1" }).all()).length, 125);
    },
  },
  {
    name: "a transaction over two kinds of entities is all or nothing",
    async run(endpoints) {
      const database = await opened(endpoints);
      const Department = entity("Department", {
        version: 1,
        table: "Employee",
        fields: { dept: f.string(), count: f.int32() },
        key: { partition: [k.str("dept")], row: [k.lit("department")] },
      });
      const departments = database.open(Department);
      await departments.insert({ dept: "Sales", count: 0 });
      const hire = (id: number, email: string) =>
        database.tx({ dept: "Sales" }, (t) => {
          t.insert(Plain, { dept: "Sales", id, email });
          t.update(Department, { dept: "Sales" }, ({ count }) => ({ count: count + 1 }));
        });
      await hire(1, "a@contoso.com");
      await assert.rejects(hire(2, "a@contoso.com"), (error) =>
        isTableError(error, "unique-violation"),
      );
      assert.equal((await departments.get({ dept: "Sales" }))?.count, 1);
      assert.equal(await database.open(Plain).get({ dept: "Sales", id: 2 }), undefined);
    },
  },
  {
    name: "concurrent updates of an entity are all applied",
    async run(endpoints) {
      const database = await opened(endpoints);
      const employees = database.open(Employee);
      const key = { dept: "Sales", id: 1 };
      await employees.insert(someone(1, { salary: 0 }));
      const increment = () =>
        employees.update(key, ({ salary = 0 }) => ({ salary: salary + 1 }), { attempts: 50 });
      await Promise.all(Array.from({ length: 8 }, increment));
      assert.equal((await employees.get(key))?.salary, 8);
      assert.equal(
        (await employees.by.email.get({ dept: "Sales", email: "e1@contoso.com" }))?.salary,
        8,
      );
    },
  },
  {
    name: "a write recognizes itself when the answer to any of its requests is lost",
    async run(endpoints) {
      const database = await opened(endpoints);
      const key = { dept: "Sales", id: 1 };
      await database.open(Employee).insert(someone(1, { salary: 0 }));
      let requests = 0;
      let expected = 0;
      for (let lost = 0; lost <= requests; lost++) {
        const faults = withFaults((_call, count) => {
          if (lost === 0) requests = count;
          return count === lost ? { kind: "lose answer" } : undefined;
        });
        const unlucky = connect({ ...endpoints, ...intercept(endpoints, faults) });
        await unlucky.open(Employee).update(key, ({ salary = 0 }) => ({ salary: salary + 1 }));
        assert.equal(
          (await database.open(Employee).get(key))?.salary,
          ++expected,
          `request ${lost}`,
        );
      }
      assert.ok(requests >= 2);
    },
  },
  {
    name: "the archive sample moves an employee once, even if it is started twice",
    async run(endpoints) {
      const database = connect(endpoints);
      await database.createTables(Leaver, Archive, archiveEmployee);
      const worker = createWorker(database, { queue: "work", handlers: [archiveEmployee] });
      await worker.createQueues();
      const input = { dept: "Sales", id: 456 };
      await database.open(Leaver).insert({ ...input, name: "Jones" });
      await archiveEmployee.start(database, { id: "archive-456", input });
      await archiveEmployee.start(database, { id: "archive-456", input });
      await worker.drain();
      assert.equal(await database.open(Leaver).get(input), undefined);
      assert.equal((await database.open(Archive).get(input))?.name, "Jones");
    },
  },
  {
    name: "a failing message is retried, then moved to the poison queue",
    async run(endpoints) {
      const database = connect(endpoints);
      let tries = 0;
      const handle = async () => {
        tries++;
        throw new Error("no");
      };
      const handlers = [{ kind: "greet", handle }];
      const worker = createWorker(database, { queue: "work", handlers, maxDequeue: 2 });
      await worker.createQueues();
      const message = {
        v: 1,
        id: "m",
        kind: "greet",
        key: "k",
        at: new Date(0).toISOString(),
        body: 1,
      };
      await database.queues!.send("work", JSON.stringify(message));
      for (let round = 0; round < 4; round++) {
        await worker.drain();
        endpoints.clock.advance(65_000);
      }
      const [poison] = await worker.peekPoison();
      assert.deepEqual([tries, poison?.failure?.error], [2, "Error: no"]);
    },
  },
  {
    name: "a unique value across partitions belongs to one entity, and is free again once released and settled",
    async run(endpoints) {
      const database = await opened(endpoints);
      await database.createTables(Person);
      const people = database.open(Person);
      await people.insert({ id: 1, login: "ann" });
      await assert.rejects(people.insert({ id: 2, login: "ann" }), (error) =>
        isTableError(error, "unique-violation"),
      );
      assert.equal((await people.by.login.get({ login: "ann" }))?.id, 1);
      endpoints.clock.advance(65_000);
      await people.update({ id: 1 }, () => ({ login: "anna" }));
      await people.insert({ id: 2, login: "ann" });
      assert.equal((await people.by.login.get({ login: "ann" }))?.id, 2);
      assert.equal((await database.tables.query("PersonByLogin", {})).entities.length, 2);
    },
  },
  {
    name: "an index by month returns the newest first, and only entities that its condition selects",
    async run(endpoints) {
      const database = connect(endpoints);
      const Hired = entity("Hired", {
        version: 1,
        fields: { dept: f.string(), id: f.int32(), hiredAt: f.date(), age: f.int32().optional() },
        key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
        indexes: {
          byMonth: remoteIndex({
            table: "HiredByMonth",
            partition: [k.isoDate("hiredAt", "month", "hireMonth"), k.str("dept")],
            row: [k.dateDesc("hiredAt"), k.uint("id", 6)],
            when: ({ age }) => age !== undefined,
            mode: "inline",
          }),
        },
      });
      await database.createTables(Hired);
      const hired = database.open(Hired);
      const on = (day: string) => new Date(`2014-${day}T18:00:00.250Z`);
      const days = ["06-30", "07-01", "07-15", "07-31", "08-01"];
      for (const [id, day] of days.entries()) {
        await hired.insert({ dept: "Sales", id, hiredAt: on(day), age: 30 });
      }
      await hired.insert({ dept: "Sales", id: 9, hiredAt: on("07-20") });
      const july = { hireMonth: on("07-02"), dept: "Sales" };
      for (const consistency of ["verify", "eventual"] as const) {
        const found = await hired.by.byMonth.range(july, { consistency }).limit(2).all();
        const expected = [3, 2].map((id) => ({
          dept: "Sales",
          id,
          hiredAt: on(days[id]!),
          age: 30,
        }));
        assert.deepEqual(
          found.map(({ etag: _etag, ...row }) => row),
          expected,
        );
      }
      const since = hired.by.byMonth.range({ ...july, hiredAt: { gte: on("07-15") } });
      assert.deepEqual(
        (await since.all()).map(({ id }) => id),
        [3, 2],
      );
    },
  },
  {
    name: "two processes build an index in shards, although one of them dies",
    async run(endpoints) {
      const bare = connect(endpoints);
      const fields = { dept: f.string(), id: f.int32(), town: f.string() };
      const key = { partition: [k.str("dept")], row: [k.uint("id", 6)] } as const;
      const Before = entity("Worker", { version: 1, fields, key });
      const byTown = remoteIndex({
        table: "WorkerByTown",
        partition: [k.str("town")],
        row: [k.str("dept"), k.uint("id", 6)],
      });
      const Worker = entity("Worker", { version: 1, fields, key, indexes: { byTown } });
      await bare.createTables(Before);
      for (const dept of ["Audit", "Legal", "Sales", "Tax"]) {
        await batch(bare, (plan) => {
          for (let id = 0; id < 20; id++) plan.insert(Before, { dept, id, town: `t${id % 3}` });
        });
      }
      await indexLifeCycle(bare, Worker, "byTown").disable();
      const stop = new AbortController();
      const dying = indexLifeCycle(bare, Worker, "byTown").build({
        shards: 4,
        parallel: 1,
        signal: stop.signal,
        onProgress: ({ shardsDone }) => shardsDone === 1 && stop.abort(new Error("Killed.")),
      });
      await assert.rejects(dying, /Killed/);
      const { done } = await indexLifeCycle(connect(endpoints), Worker, "byTown").build();
      assert.equal(done, 80);
      endpoints.clock.advance(65_000);
      const { examples, ...counts } = await verifyIndex(bare, Worker, "byTown");
      const found = {
        missing: 0,
        wrong: 0,
        dangling: 0,
        duplicate: 0,
        young: 0,
        repairRequests: 0,
      };
      assert.deepEqual([counts, examples], [{ entities: 80, entries: 80, ...found }, []]);
    },
  },
  {
    name: "a scrub finds and repairs exactly the damaged entries",
    async run(endpoints) {
      const database = await opened(endpoints);
      const employees = database.open(Employee);
      const more = { town: "Redmond", salary: 4, total: 1n, hiredAt: new Date(0) };
      for (let id = 0; id < 6; id++) await employees.insert(someone(id, more));
      const gone = { partitionKey: "Redmond", rowKey: "Sales_000003", ifMatch: "*" };
      await database.tables.commit("EmployeeByTown", [{ kind: "delete", ...gone }]);
      const altered = { partitionKey: "Redmond", rowKey: "Sales_000004", ifMatch: "*" };
      const properties = { salary: { type: "Double", value: 5 } } as const;
      await database.tables.commit("EmployeeByTown", [{ kind: "merge", ...altered, properties }]);
      endpoints.clock.advance(65_000);
      const verify = async () => {
        const { missing, wrong, dangling, young } = await verifyIndex(database, Employee, "byTown");
        return [missing, wrong, dangling, young];
      };
      assert.deepEqual(await verify(), [1, 1, 0, 0]);
      await repairIndex(database, Employee, "byTown");
      assert.deepEqual(await verify(), [0, 0, 0, 0]);
      assert.equal((await employees.by.byTown.range({ town: "Redmond" }).all()).length, 6);
    },
  },
  {
    name: "a condition on a small partition selects the same rows as on the endpoint",
    async run(endpoints) {
      await assertSameRows(
        endpoints,
        [
          {},
          { salary: 2, town: "Redmond" },
          { salary: 2.5, total: 2n ** 60n },
          { salary: Number.NEGATIVE_INFINITY, total: -1n },
          { town: "redmond", total: 2n ** 60n + 1n },
        ],
        [
          ({ salary }) => salary.lte(2),
          ({ salary }) => salary.ne(2),
          ({ salary }) => salary.ne(2).not(),
          ({ total }) => total.gt(2n ** 60n),
          ({ town }) => town.gte("Redmond"),
          ({ town, total }) => town.eq("Redmond").or(total.lt(0n)),
          ({ town, total }) => town.eq("Redmond").and(total.lt(0n)).not(),
        ],
      );
    },
  },
  {
    name: "a condition on a small partition compares NaN as the endpoint does",
    async run(endpoints) {
      await assertSameRows(
        endpoints,
        [{}, { salary: 2 }, { salary: Number.NEGATIVE_INFINITY }, { salary: Number.NaN }],
        [
          ({ salary }) => salary.lte(2),
          ({ salary }) => salary.ne(2),
          ({ salary }) => salary.gte(Number.NaN).or(salary.ne(Number.NaN).not()),
        ],
      );
    },
  },
];

const Person = entity("Person", {
  version: 1,
  fields: { id: f.int32(), login: f.string() },
  key: { partition: [k.hash("id", 4)], row: [k.uint("id", 6)] },
  indexes: {
    login: remoteIndex({
      table: "PersonByLogin",
      partition: [k.hash("login", 4)],
      row: [k.str("login")],
      unique: true,
      mode: "inline",
      copy: "keys",
    }),
  },
});

const Plain = entity("Plain", {
  version: 1,
  table: "Employee",
  fields: { dept: f.string(), id: f.int32(), email: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("plain"), k.uint("id", 6)] },
  indexes: { email: siblingIndex({ row: [k.lit("mail"), k.str("email")], unique: true }) },
});
