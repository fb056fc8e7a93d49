import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { isRefusalInside } from "./ports/port-error.ts";
import { siblingIndex } from "./sibling-index.ts";
import type { Layer } from "./store/layer.ts";
import type { PageRead } from "./store/page-read.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";

const Employee = entity("Employee", {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string(),
    lastName: f.string(),
    age: f.int32().optional(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }),
    lastName: siblingIndex({
      row: [k.lit("last"), k.str("lastName"), k.uint("id", 6)],
      copy: ["email"],
    }),
    senior: siblingIndex({
      row: [k.lit("senior"), k.uint("age", 3), k.uint("id", 6)],
      copy: "keys",
      when: (employee) => Number(employee.age) >= 60,
    }),
  },
});
type Employee = typeof Employee.infer;

const jones: Employee = { dept: "Sales", id: 223, email: "jonesj@contoso.com", lastName: "Jones" };
const key = { dept: "Sales", id: 223 };

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Employee);
  return { backend, db, employees: db.open(Employee) };
}

describe("a sibling index", () => {
  it("needs no literal in front of a number, which no key that begins with a letter can equal", async () => {
    const email = (literal: string) =>
      siblingIndex({ row: [k.lit(literal), k.str("email")], unique: true });
    const fields = { dept: f.string(), id: f.int32(), email: f.string() };
    const partition = [k.str("dept")] as const;
    const numbered = { version: 1, fields, key: { partition, row: [k.uint("id", 6)] } } as const;
    const Numbered = entity("Numbered", { ...numbered, indexes: { email: email("email") } });
    const db = connect(memory());
    await db.createTables(Numbered);
    const all = db.open(Numbered);
    for (const id of [152, 999_999]) await all.insert({ dept: "Sales", id, email: `e${id}` });
    assert.equal((await all.by.email.get({ dept: "Sales", email: "e152" }))?.id, 152);
    const found = await all.range({ dept: "Sales" }).all();
    assert.deepEqual(
      found.map(({ id }) => id),
      [152, 999_999],
    );
    const refused = (declare: () => unknown) =>
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    refused(() => entity("Numbered", { ...numbered, indexes: { email: email("0e") } }));
    const row = [k.str("email")] as const;
    const named = { version: 1, fields, key: { partition, row } } as const;
    refused(() => entity("Named", { ...named, indexes: { email: email("email") } }));
    const bare = siblingIndex({ row: [k.uint("id", 6)], unique: true });
    refused(() => entity("Numbered", { ...numbered, indexes: { bare } }));
  });

  it("stores entries next to the entity, under the documented keys", async () => {
    const { backend, employees } = await open();
    await employees.insert({ ...jones, age: 61 });
    assert.deepEqual(await rowKeys(backend), [
      "email_jonesj@contoso.com",
      "empid_000223",
      "last_Jones_000223",
      "senior_061_000223",
    ]);
    const entry = await backend.tables.get("Employee", {
      partitionKey: "Sales",
      rowKey: "last_Jones_000223",
    });
    const { rh_w: _tokens, ...properties } = entry!.properties;
    assert.deepEqual(properties, {
      email: { type: "String", value: "jonesj@contoso.com" },
      baseRK: { type: "String", value: "empid_000223" },
      rh_t: { type: "String", value: "Employee.lastName:1" },
    });
  });

  it("finds an entity by a unique value in one request, and by a prefix", async () => {
    const { db, employees } = await open();
    await employees.insert(jones);
    const { requests, result } = await db.metered((metered) =>
      metered.open(Employee).by.email.get({ dept: "Sales", email: "jonesj@contoso.com" }),
    );
    const { etag: _etag, ...found } = result!;
    assert.deepEqual([requests, found], [1, jones]);
    const range = employees.by.email.range({ dept: "Sales", email: { startsWith: "j" } });
    assert.equal((await range.all()).length, 1);
    assert.deepEqual(range.explain(), {
      plan: "range",
      table: "Employee",
      filter: "PartitionKey eq 'Sales' and RowKey ge 'email_j' and RowKey lt 'email_k'",
      requests: "⌈rows/1000⌉",
      entities: "rows",
      notes: ["served from copies"],
    });
  });

  it("reports its point reads to onPage, as any query does", async () => {
    const { backend, db } = await open();
    const plans: string[] = [];
    const onPage = ({ plan, returned }: PageRead) => plans.push(`${plan} ${returned}`);
    const { email } = connect({ ...backend, onPage }).open(Employee).by;
    const jonesj = { dept: "Sales", email: "jonesj@contoso.com" };
    await email.get(jonesj);
    await db.open(Employee).insert(jones);
    await email.get(jonesj);
    await email.range(jonesj).first();
    assert.deepEqual(plans, ["point 0", "point 1", "point 1"]);
  });

  it("reads the entity if an entry does not copy a requested field", async () => {
    const { db, employees } = await open();
    await employees.insert(jones);
    const query = { dept: "Sales", lastName: "Jones" };
    const whole = await db.metered((metered) =>
      metered.open(Employee).by.lastName.range(query).all(),
    );
    assert.deepEqual([whole.requests, whole.result[0]?.lastName], [2, "Jones"]);
    const covered = await db.metered((metered) =>
      metered.open(Employee).by.lastName.range(query).select("email", "id").all(),
    );
    assert.deepEqual(
      [covered.requests, covered.result[0]?.email, covered.result[0]?.id],
      [1, jones.email, 223],
    );
  });

  it("leaves entries out of ranges and scans of the entities", async () => {
    const { employees } = await open();
    await employees.insert(jones);
    assert.equal((await employees.range({ dept: "Sales" }).all()).length, 1);
    const permit = { allow: "table-scan", because: "test" } as const;
    assert.equal((await employees.scan().all(permit)).length, 1);
  });

  it("moves an entry if one of two fields of its key is patched", async () => {
    const { backend, employees } = await open();
    await employees.insert({ ...jones, age: 61 });
    await employees.update(key, () => ({ lastName: "Jones-Lee", age: 62 }));
    assert.deepEqual(await rowKeys(backend), [
      "email_jonesj@contoso.com",
      "empid_000223",
      "last_Jones-Lee_000223",
      "senior_062_000223",
    ]);
  });

  it("names the owner of a unique value", async () => {
    const { employees } = await open();
    await employees.insert(jones);
    await assert.rejects(employees.insert({ ...jones, id: 7 }), (error) => {
      assert.ok(isTableError(error, "unique-violation"));
      assert.equal(error.index, "email");
      assert.deepEqual(error.owner, { dept: "Sales", id: 223 });
      assert.ok(isRefusalInside(error.cause, 409));
      return true;
    });
  });

  it("restores a missing entry on reconcile, and lets its entity be deleted without it", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    const entry = { partitionKey: "Sales", rowKey: "email_jonesj@contoso.com" };
    await backend.tables.commit("Employee", [{ kind: "delete", ...entry, ifMatch: "*" }]);
    await employees.reconcile(key);
    assert.ok(await backend.tables.get("Employee", entry));
    await backend.tables.commit("Employee", [{ kind: "delete", ...entry, ifMatch: "*" }]);
    await employees.delete(key);
    assert.deepEqual(await rowKeys(backend), []);
  });

  it("leaves an entry to its owner when other software wrote another entity with the value", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    const { rh_w: _token, ...properties } = (await backend.tables.get("Employee", {
      partitionKey: "Sales",
      rowKey: "empid_000223",
    }))!.properties;
    const row = { partitionKey: "Sales", rowKey: "empid_000007" };
    const foreign = { ...properties, id: { type: "Int32", value: 7 } } as const;
    await backend.tables.commit("Employee", [{ kind: "insert", ...row, properties: foreign }]);
    const other = { dept: "Sales", id: 7 };
    const holder = async () =>
      (await employees.by.email.get({ dept: "Sales", email: jones.email }))?.id;
    const isTaken = (error: unknown) => isTableError(error, "unique-violation");
    await assert.rejects(
      employees.update(other, () => ({ age: 30 })),
      isTaken,
    );
    await assert.rejects(employees.reconcile(other), isTaken);
    await employees.delete(other);
    assert.equal(await holder(), 223);
    await backend.tables.commit("Employee", [{ kind: "insert", ...row, properties: foreign }]);
    await employees.update(other, () => ({ email: "seven@contoso.com" }));
    assert.equal(await holder(), 223);
    assert.equal(
      (await employees.by.email.get({ dept: "Sales", email: "seven@contoso.com" }))?.id,
      7,
    );
  });

  it("asks for another repair later while it keeps losing races", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    const changed = withFaults(({ method }) =>
      method === "commit"
        ? { kind: "refuse", status: 412, code: "UpdateConditionNotSatisfied" }
        : undefined,
    );
    const racing = connect({ ...backend, ...intercept(backend, changed) });
    const context = { session: racing, entity: Employee, name: "email" };
    const { keeper } = Employee.indexes.email!.follow(context);
    const base = { partitionKey: "Sales", rowKey: "empid_000223" };
    assert.equal(await keeper?.reconcile(base, []), "later");
  });

  it("keeps the entry of an entity that is inserted again during its repair", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    await employees.delete(key);
    let inserts = 0;
    const inserting: Layer = async ({ method, args: [, at] }, send) => {
      const answer = await send();
      const isBase = method === "get" && JSON.stringify(at).includes("empid_000223");
      if (isBase && inserts++ === 0) await employees.insert(jones);
      return answer;
    };
    const database = connect({ ...backend, ...intercept(backend, inserting) });
    const { keeper } = Employee.indexes.email!.follow({
      session: database,
      entity: Employee,
      name: "email",
    });
    const at = (rowKey: string) => ({ partitionKey: "Sales", rowKey });
    await keeper?.reconcile(at("empid_000223"), [at("email_jonesj@contoso.com")]);
    assert.equal(inserts, 1);
    const found = await employees.by.email.get({ dept: "Sales", email: jones.email });
    assert.equal(found?.id, 223);
  });

  it("leaves the entry of another entity alone if a hint names it", async () => {
    const { backend, db, employees } = await open();
    await employees.insert(jones);
    await employees.insert({ ...jones, id: 7, email: "seven@contoso.com" });
    const before = await rowKeys(backend);
    const context = { session: db, entity: Employee, name: "email" };
    const { keeper } = Employee.indexes.email!.follow(context);
    const at = (rowKey: string) => ({ partitionKey: "Sales", rowKey });
    for (const id of ["000007", "000008"]) {
      const hints = [at("email_jonesj@contoso.com")];
      assert.equal(await keeper?.reconcile(at(`empid_${id}`), hints), "done");
    }
    assert.deepEqual(await rowKeys(backend), before);
  });

  it("costs the promised requests and entities", async () => {
    const { db } = await open();
    const insert = await db.metered((metered) => metered.open(Employee).insert(jones));
    assert.deepEqual([insert.requests, insert.entities], [1, 3]);
    const update = await db.metered((metered) =>
      metered.open(Employee).update(key, () => ({ age: 5 })),
    );
    assert.deepEqual([update.requests, update.entities], [2, 4]);
  });

  it("matches the index computed from the entities after any sequence of writes", async () => {
    const id = fc.integer({ min: 1, max: 3 });
    const email = fc.constantFrom("a", "b", "c_d");
    const age = fc.option(fc.constantFrom(59, 60, 61), { nil: undefined });
    const lastName = fc.constantFrom("Jones", "Jones_1", "Lee");
    const command = fc.record({
      verb: fc.constantFrom("insert", "update", "upsert", "delete"),
      id,
      email,
      age,
      lastName,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 12 }), async (commands) => {
        const { backend, employees } = await open();
        const model = new Map<number, Employee>();
        for (const { verb, age, ...rest } of commands) {
          const value: Employee = { dept: "Sales", ...rest, ...(age !== undefined && { age }) };
          const present = model.has(rest.id);
          const isTaken = [...model.values()].some(
            (other) => other.id !== rest.id && other.email === rest.email,
          );
          const outcome = await run(employees, verb, value);
          const expected = expect(verb, present, isTaken);
          assert.equal(outcome, expected, verb);
          if (expected !== "ok") continue;
          if (verb === "delete") model.delete(rest.id);
          else model.set(rest.id, value);
          assert.deepEqual(
            await rowKeys(backend),
            [...model.values()].flatMap(expectedKeys).sort(),
          );
        }
        await assertCopies(backend);
      }),
      histories(300),
    );
  });

  it("survives a lost answer to each request of each write", async () => {
    for (const write of [
      (e: Repository) => e.insert({ ...jones, id: 9, email: "n" }),
      (e: Repository) =>
        e.update(key, (current) => ({ age: (current.age ?? 0) + 1, lastName: "Lee" })),
      (e: Repository) => e.upsert({ ...jones, email: "new" }),
      (e: Repository) => e.delete(key),
    ]) {
      const plain = await open();
      await plain.employees.insert(jones);
      await write(plain.employees);
      for (let lost = 1; lost <= 2; lost++) {
        const { backend, employees } = await open();
        await employees.insert(jones);
        const faults = withFaults((_request, count) =>
          count === lost ? { kind: "lose answer" } : undefined,
        );
        await write(connect({ ...backend, ...intercept(backend, faults) }).open(Employee));
        assert.deepEqual(await rowKeys(backend), await rowKeys(plain.backend));
        assert.deepEqual((await employees.get(key))?.age, (await plain.employees.get(key))?.age);
      }
    }
  });

  const before = async (db: Database) => {
    await db.createTables(Employee);
    await db.open(Employee).insert({ ...jones, age: 61 });
  };
  /** The rows of the partition are exactly the entities and their entries. */
  const audit = async (db: Database, backend: Backend) => {
    const all = await db.open(Employee).range({ dept: "Sales" }).all();
    assert.deepEqual(await rowKeys(backend), all.flatMap(expectedKeys).sort());
    assert.equal(new Set(all.map(({ email }) => email)).size, all.length);
    await assertCopies(backend);
  };
  const writes: Record<string, (e: Repository) => Promise<unknown>> = {
    insert: (e) => e.insert({ ...jones, id: 9, email: "n" }),
    update: (e) => e.update(key, ({ age = 0 }) => ({ age: age + 1, lastName: "Lee", email: "n" })),
    upsert: (e) => e.upsert({ ...jones, email: "n" }),
    delete: (e) => e.delete(key),
  };

  it("matches the entities after a crash at each request of each write", async () => {
    for (const write of Object.values(writes)) {
      await crashEverywhere((db) => write(db.open(Employee)), { before, check: audit });
    }
  });

  it("matches the entities in any interleaving of writers on one entity and one value", async () => {
    const tolerant = (name: string) => async (db: Database) => {
      await writes[name]!(db.open(Employee)).catch((error) =>
        assert.ok(isTableError(error, "unique-violation") || isTableError(error, "not-found")),
      );
    };
    const pairs = Object.keys(writes).flatMap((one, i, all) =>
      all.slice(i).map((two) => ({ one: tolerant(one), two: tolerant(two) })),
    );
    for (const clients of pairs)
      await interleave({ before, clients, check: audit, runs: schedules(100) });
    const clients = Object.fromEntries(Object.keys(writes).map((name) => [name, tolerant(name)]));
    await interleave({ before, clients, check: audit, runs: schedules(1200) });
  });

  it("is refused if it is declared wrongly", () => {
    const declare = (row: Parameters<typeof siblingIndex>[0]["row"], unique = false) =>
      entity("E", {
        version: 1,
        fields: { p: f.string(), id: f.int32(), name: f.string() },
        key: { partition: [k.str("p")], row: [k.lit("id"), k.uint("id", 4)] },
        indexes: { name: siblingIndex({ row, unique }) },
      });
    const refused = (run: () => unknown, text: RegExp) =>
      assert.throws(
        run,
        (error) => isTableError(error, "invalid-definition") && text.test(error.message),
      );
    refused(() => declare([k.lit("name"), k.str("name")]), /must name the entity/);
    refused(() => declare([k.str("name")], true), /collide/);
    refused(() => declare([k.lit("id"), k.str("name")], true), /collide/);
    refused(() => declare([k.lit("x"), k.str("town")], true), /"town", which is not declared/);
    refused(() => declare([k.lit("x_y"), k.str("name")], true), /literal/);
  });

  it("stays in the entity's partition, even if its options name a table or partition", () => {
    const elsewhere = { table: "Elsewhere", partition: [k.str("email")] };
    const index = siblingIndex({ row: [k.lit("email"), k.str("email")], ...elsewhere });
    const { table, partition } = index.place(Employee);
    assert.deepEqual([table, index.tables], [Employee.table, []]);
    assert.equal(partition, Employee.rows.partition);
  });

  it("may be one of 49, which all change in one transaction", async () => {
    const declare = (count: number) =>
      entity("Many", {
        version: 1,
        fields: { p: f.string(), id: f.int32(), name: f.string() },
        key: { partition: [k.str("p")], row: [k.lit("id"), k.uint("id", 4)] },
        indexes: Object.fromEntries(
          Array.from({ length: count }, (_, i) => [
            `by${i}`,
            siblingIndex({ row: [k.lit(`n${i}x`), k.str("name"), k.uint("id", 4)] }),
          ]),
        ),
      });
    assert.throws(() => declare(50), /at most 49 fit in a transaction/);
    const Many = declare(49);
    const backend = memory();
    const db = connect(backend);
    await db.createTables(Many);
    await db.open(Many).insert({ p: "p", id: 1, name: "old" });
    await db.open(Many).update({ p: "p", id: 1 }, () => ({ name: "new" }));
    const { entities } = await backend.tables.query("Many", {});
    assert.equal(entities.filter(({ rowKey }) => rowKey.includes("_new_")).length, 49);
    assert.equal(entities.length, 50);
  });
});

describe("an entry key that is too long", () => {
  const email = "x".repeat(513);
  const isTooLong = (error: unknown) =>
    isTableError(error, "key-too-long") && error.length === "email_".length + email.length;

  it("is refused before the write is sent", async () => {
    const { db, employees } = await open();
    const short = await employees.insert(jones);
    const write = async (metered: Database) => {
      const repository = metered.open(Employee);
      await assert.rejects(repository.insert({ ...jones, id: 1, email }), isTooLong);
      await assert.rejects(repository.upsert({ ...jones, id: 223, email }), isTooLong);
      await assert.rejects(
        repository.update(key, () => ({ email })),
        isTooLong,
      );
      await assert.rejects(repository.by.email.get({ dept: "Sales", email }), isTooLong);
      await assert.rejects(repository.by.email.range({ dept: "Sales", email }).all(), isTooLong);
    };
    // The reads of the rows to be changed.
    assert.equal((await db.metered(write)).requests, 2);
    assert.deepEqual(await employees.get(key), short);
  });
});

type Repository = Awaited<ReturnType<typeof open>>["employees"];
type Verb = "insert" | "update" | "upsert" | "delete";

async function run(employees: Repository, verb: Verb, value: Employee): Promise<string> {
  const { dept, id, email, lastName, age } = value;
  try {
    if (verb === "insert") await employees.insert(value);
    if (verb === "update") await employees.update({ dept, id }, () => ({ email, lastName, age }));
    if (verb === "upsert") await employees.upsert(value);
    return verb === "delete" && !(await employees.delete({ dept, id })) ? "absent" : "ok";
  } catch (error) {
    if (!isTableError(error)) throw error;
    return error.code === "unique-violation" ? error.index : error.code;
  }
}

function expect(verb: Verb, present: boolean, isTaken: boolean): string {
  if (verb === "delete") return present ? "ok" : "absent";
  if (verb === "insert" && present) return "key";
  if (verb === "update" && !present) return "not-found";
  return isTaken ? "email" : "ok";
}

function expectedKeys({ id, email, lastName, age }: Employee): string[] {
  const tail = String(id).padStart(6, "0");
  const keys = [
    `empid_${tail}`,
    `email_${email}`,
    `last_${lastName.replaceAll("_", "^~~")}_${tail}`,
  ];
  return age !== undefined && age >= 60 ? [...keys, `senior_0${age}_${tail}`] : keys;
}

type Backend = ReturnType<typeof memory>;

async function rowKeys(backend: Backend): Promise<string[]> {
  return (await backend.tables.query("Employee", {})).entities.map(({ rowKey }) => rowKey);
}

/** The base and its entries begin with the same write token. */
async function assertCopies(backend: Backend): Promise<void> {
  const { entities } = await backend.tables.query("Employee", {});
  const token = (rowKey: string) =>
    String(entities.find((entity) => entity.rowKey === rowKey)?.properties.rh_w?.value).split(
      ",",
    )[0];
  for (const { rowKey, properties } of entities) {
    const base = properties.baseRK?.value;
    if (base !== undefined) assert.equal(token(rowKey), token(String(base)));
  }
}
