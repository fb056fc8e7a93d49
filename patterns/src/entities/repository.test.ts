import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { batch } from "../batch.ts";
import { connect, entity, f, isTableError, k } from "../index.ts";
import { longText } from "../long-text.ts";
import { isRefusal, PortError } from "../ports/port-error.ts";
import { siblingIndex } from "../sibling-index.ts";
import type { Layer } from "../store/layer.ts";
import { intercept, withFaults } from "../testing/intercept.ts";
import { memory } from "../testing/memory.ts";

const declaration = {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string(),
    lastName: f.string(),
    age: f.int32().optional(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
} as const;
const Employee = entity("Employee", declaration);
const Indexed = entity("Employee", {
  ...declaration,
  indexes: { email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }) },
});

const jones = { dept: "Sales", id: 223, email: "jonesj@contoso.com", lastName: "Jones" };

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Employee);
  return { backend, db, employees: db.open(Employee) };
}

describe("a repository", () => {
  it("stores an entity under the documented keys, with explicit types", async () => {
    const { backend, employees } = await open();
    await employees.insert({ ...jones, age: 40 });
    const stored = await backend.tables.get("Employee", {
      partitionKey: "Sales",
      rowKey: "empid_000223",
    });
    const { rh_w, ...properties } = stored!.properties;
    assert.match(String(rh_w?.value), /^[0-9A-Z]{26}$/);
    assert.deepEqual(properties, {
      email: { type: "String", value: "jonesj@contoso.com" },
      lastName: { type: "String", value: "Jones" },
      age: { type: "Int32", value: 40 },
      rh_t: { type: "String", value: "Employee:1" },
    });
  });

  it("reads an entity by point query, range and scan", async () => {
    const { employees } = await open();
    const saved = await employees.insert(jones);
    assert.deepEqual(await employees.get({ dept: "Sales", id: 223 }), saved);
    assert.deepEqual(await employees.range({ dept: "Sales", id: { gte: 100 } }).all(), [saved]);
    const permit = { allow: "table-scan", because: "test" } as const;
    assert.deepEqual(await employees.scan().all(permit), [saved]);
  });

  it("names a missing table and how to create it", async () => {
    const employees = connect(memory()).open(Employee);
    for (const asked of [employees.insert(jones), employees.get({ dept: "Sales", id: 1 })]) {
      await assert.rejects(asked, (error) => {
        assert.ok(error instanceof PortError);
        assert.deepEqual([error.status, error.code], [404, "TableNotFound"]);
        assert.match(error.message, /^There is no table "Employee"\.\n {2}Remedy: .*createTables/);
        return true;
      });
    }
  });

  it("refuses promises, invalid conditions and unknown segments from plain JavaScript", async () => {
    const { employees } = await open();
    await employees.insert(jones);
    const key = { dept: "Sales", id: 223 };
    const later = async () => ({ age: 5 });
    await assert.rejects(employees.update(key, later as never), /returned a promise/);
    const noCondition = ({ age }: { readonly age: unknown }) => age === 5;
    const where = () => employees.range({ dept: "Sales" }).where(noCondition as never);
    assert.throws(where, /it returned no condition/);
    const { db } = await open();
    const indexed = db.open(Indexed);
    for (const query of [
      { dept: "Sales", idd: 5 },
      { dept: "Sales", lastName: "Jones" },
    ]) {
      for (const range of [
        () => employees.range(query),
        () => indexed.by.email.range(query as never),
        () => indexed.by.email.get(query as never),
      ]) {
        await assert.rejects(
          async () => range(),
          /idd: is not a key segment|lastName: is not a key segment/,
        );
      }
    }
    const open_ = { dept: "Sales", id: undefined };
    assert.equal((await employees.range(open_ as never).all()).length, 1);
  });

  it("repeats an update that lost a race", async () => {
    const { employees } = await open();
    await employees.insert({ ...jones, age: 1 });
    const key = { dept: "Sales", id: 223 };
    let calls = 0;
    const clients = Array.from({ length: 4 }, () =>
      employees.update(key, (current) => {
        calls++;
        return { age: (current.age ?? 0) + 1 };
      }),
    );
    await Promise.all(clients);
    assert.equal((await employees.mustGet(key)).age, 5);
    assert.ok(calls > 4);
  });

  it("refuses an update that changes the key", async () => {
    const { employees } = await open();
    await employees.insert(jones);
    const key = { dept: "Sales", id: 223 };
    for (const moved of ['{"id":224}', '{"dept":"Board"}']) {
      await assert.rejects(
        employees.update(key, () => JSON.parse(moved)),
        (error) =>
          isTableError(error, "validation-failed") && /a key cannot change/.test(error.message),
      );
    }
    assert.equal((await employees.get(key))?.email, jones.email);
  });

  it("gives up after the given number of attempts, and reports it", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    const lost = { kind: "refuse", status: 412, code: "UpdateConditionNotSatisfied" } as const;
    const faults = withFaults(({ method }) => (method === "commit" ? lost : undefined));
    const losing = connect({ ...backend, ...intercept(backend, faults) }).open(Employee);
    const of = async (attempts: number) => {
      const update = losing.update(jones, () => ({ age: 1 }), { attempts });
      return update.catch((error) => isTableError(error, "contention-exhausted") && error.attempts);
    };
    assert.deepEqual([await of(1), await of(3)], [1, 3]);
  });

  it("removes a field that becomes undefined, and keeps properties it does not know", async () => {
    const { backend, employees } = await open();
    await employees.insert({ ...jones, age: 1 });
    const key = { partitionKey: "Sales", rowKey: "empid_000223" };
    const foreign = { type: "String", value: "kept" } as const;
    await backend.tables.commit("Employee", [
      { kind: "merge", ...key, ifMatch: "*", properties: { foreign } },
    ]);
    await employees.update({ dept: "Sales", id: 223 }, () => ({ age: undefined }));
    const stored = await backend.tables.get("Employee", key);
    assert.equal(stored?.properties.age, undefined);
    assert.deepEqual(stored?.properties.foreign, foreign);
  });

  it("does not send unchanged dates, so ticks written by other software stay", async () => {
    const { backend, db } = await open();
    const Shift = entity("Shift", {
      version: 1,
      fields: {
        dept: f.string(),
        id: f.int32(),
        from: f.date(),
        to: f.date(),
        note: f.string().optional(),
      },
      key: { partition: [k.str("dept")], row: [k.lit("shift"), k.uint("id", 6)] },
    });
    await db.createTables(Shift);
    const at = { partitionKey: "Sales", rowKey: "shift_000001" };
    const ticks = { type: "DateTime", value: "2020-01-01T08:00:00.1234567Z" } as const;
    const whole = { type: "DateTime", value: "2020-01-01T16:00:00Z" } as const;
    await backend.tables.commit("Shift", [
      { kind: "insert", ...at, properties: { from: ticks, to: whole } },
    ]);
    const shifts = db.open(Shift);
    const first = { dept: "Sales", id: 1 };
    await shifts.update(first, () => ({ note: "early" })); // A merge, then a replace.
    await shifts.update(first, () => ({ note: undefined }));
    const stored = await backend.tables.get("Shift", at);
    assert.deepEqual([stored?.properties.from, stored?.properties.to], [ticks, whole]);
    await shifts.update(first, ({ from }) => ({ from: new Date(+from + 1) }));
    const moved = await backend.tables.get("Shift", at);
    assert.equal(moved?.properties.from?.value, "2020-01-01T08:00:00.124Z");
  });

  it("survives a lost answer to each request of an update, without an error or a double effect", async () => {
    for (let lost = 1; lost <= 2; lost++) {
      const backend = memory();
      const setup = connect(backend);
      await setup.createTables(Employee);
      await setup.open(Employee).insert({ ...jones, age: 1 });
      const faults = withFaults((_request, count) =>
        count === lost ? { kind: "lose answer" } : undefined,
      );
      const db = connect({ ...backend, ...intercept(backend, faults) });
      await db
        .open(Employee)
        .update({ dept: "Sales", id: 223 }, (e) => ({ age: (e.age ?? 0) + 1 }));
      assert.equal((await setup.open(Employee).mustGet({ dept: "Sales", id: 223 })).age, 2);
    }
  });

  it("reports a table that is being deleted as such, not as a key that is taken", async () => {
    const { db, backend, employees } = await open();
    const faults = withFaults(({ method }) =>
      method === "commit" ? { kind: "refuse", status: 409, code: "TableBeingDeleted" } : undefined,
    );
    const going = connect({ ...backend, ...intercept(backend, faults) });
    const told = (error: unknown) => isRefusal(error, 409) && error.code === "TableBeingDeleted";
    await assert.rejects(going.open(Employee).insert(jones), told);
    await assert.rejects(going.open(Employee).upsert(jones), told);
    await employees.insert(jones);
    const key = { dept: "Sales", id: 223 };
    await assert.rejects(
      going.open(Employee).update(key, () => ({ age: 1 })),
      told,
    );
    await assert.rejects(going.open(Indexed).delete(key), told);
    const inserts = Array.from({ length: 3 }, (_, id) => ({ ...jones, id }));
    const usage = await going.metered((metered) =>
      batch(metered, (b) => {
        for (const each of inserts) b.insert(Employee, each);
      }),
    );
    assert.ok(usage.result.every((result) => !result.ok && told(result.error)));
    assert.equal(usage.requests, 1);
    assert.equal((await db.open(Employee).range({ dept: "Sales" }).all()).length, 1);
  });

  it("returns no ETag for a version that another writer wrote while an answer was lost", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    const key = { dept: "Sales", id: 223 };
    let isLost = false;
    const layer: Layer = async ({ method }, send) => {
      const answer = await send();
      if (method !== "commit" || isLost) return answer;
      isLost = true;
      await employees.update(key, () => ({ email: "theirs" }));
      throw new PortError("The connection was reset.", { status: 0, code: "ECONNRESET" });
    };
    const ours = connect({ ...backend, ...intercept(backend, layer) }).open(Employee);
    const saved = await ours.update(key, () => ({ age: 40 }));
    await assert.rejects(ours.replaceIfUnchanged({ ...saved, age: 41 }), { code: "conflict" });
    await assert.rejects(ours.deleteIfUnchanged(saved), { code: "conflict" });
    const { email, age } = await employees.mustGet(key);
    assert.deepEqual([email, age], ["theirs", 40]);
  });

  it("finds an entity by a key segment with a name of its own", async () => {
    const Visit = entity("Visit", {
      version: 1,
      fields: { at: f.date(), id: f.string(), guests: f.int32().optional() },
      key: { partition: [k.isoDate("at", "month", "month")], row: [k.str("id")] },
    });
    const { db } = await open();
    await db.createTables(Visit);
    const visits = db.open(Visit);
    await visits.insert({ at: new Date("2026-03-17"), id: "a" });
    const key = { month: new Date("2026-03-01"), id: "a" };
    await visits.update(key, () => ({ guests: 2 }));
    await db.tx({ month: key.month }, (t) =>
      t.update(Visit, key, (old) => ({ guests: (old.guests ?? 0) + 1 })),
    );
    assert.equal((await visits.get(key))?.guests, 3);
    assert.equal(await visits.delete(key), true);
  });

  it("refuses * as the ETag of the version that was read", async () => {
    for (const definition of [Employee, Indexed]) {
      const { db } = await open();
      const employees = db.open(definition);
      await employees.insert(jones);
      const unread = { ...jones, etag: "*" };
      await assert.rejects(employees.deleteIfUnchanged(unread), { code: "conflict" });
      await assert.rejects(employees.replaceIfUnchanged(unread), { code: "conflict" });
    }
  });

  it("refuses unknown fields, even those that every object inherits", async () => {
    const { employees } = await open();
    const unknown = { ...jones, toString: () => "text" };
    await assert.rejects(employees.insert(unknown), { code: "validation-failed" });
  });

  it("validates the fields it merges without reading", async () => {
    const { employees } = await open();
    const key = { dept: "Sales", id: 223 };
    await assert.rejects(employees.insertOrMerge({ ...key, age: 1.5 }), {
      code: "validation-failed",
    });
    await employees.insertOrMerge({ ...key, age: 1 });
  });

  it("refuses a row above 1 MiB however it is written", async () => {
    const fields = { id: f.string(), ...longText("text").fields, more: f.string().optional() };
    const key = { partition: [k.str("id")], row: [k.lit("doc")] } as const;
    const Doc = entity("Doc", { version: 1, fields, key });
    const { db } = await open();
    const doc = {
      id: "1",
      ...longText("text").split("x".repeat(491_520)),
      more: "x".repeat(32_768),
    };
    const docs = db.open(Doc);
    const writes = [
      docs.insert(doc),
      docs.upsert(doc),
      docs.insertOrMerge(doc),
      batch(db, (b) => b.upsert(Doc, doc)),
    ];
    for (const write of writes) await assert.rejects(write, { code: "entity-too-large" });
  });

  it("deletes and replaces the version that was read, even if the object was changed since", async () => {
    const { db, backend } = await open();
    const employees = db.open(Indexed);
    const mutable = (row: object) => row as { email: string };
    const saved = await employees.insert(jones);
    mutable(saved).email = "other";
    const replaced = await employees.replaceIfUnchanged(saved);
    mutable(replaced).email = "third";
    const read = await employees.mustGet({ dept: "Sales", id: 223 });
    mutable(read).email = "fourth";
    await employees.deleteIfUnchanged(read);
    assert.deepEqual((await backend.tables.query("Employee", {})).entities, []);
  });

  it("stores NaN and infinite numbers", async () => {
    const Reading = entity("Reading", {
      version: 1,
      fields: { id: f.string(), value: f.double() },
      key: { partition: [k.str("id")], row: [k.lit("reading")] },
    });
    const { db } = await open();
    await db.createTables(Reading);
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.5]) {
      await db.open(Reading).upsert({ id: "a", value });
      assert.equal((await db.open(Reading).get({ id: "a" }))?.value, value);
    }
  });

  it("costs the requests and entities that the manual states", async () => {
    const key = { dept: "Sales", id: 223 };
    type Common = Omit<ReturnType<typeof Indexed.open>, "by" | "insertOrMerge">;
    type Work = (employees: Common) => Promise<unknown>;
    const works: [work: Work, requests: number, entities: number, indexed: [number, number]][] = [
      [(e) => e.insert({ ...jones, id: 9, email: "new" }), 1, 1, [1, 2]],
      [(e) => e.upsert({ ...jones, id: 9, email: "new" }), 1, 1, [2, 2]],
      [(e) => e.upsert({ ...jones, lastName: "Lee" }), 1, 1, [2, 3]],
      [(e) => e.update(key, () => ({ lastName: "Lee" })), 2, 2, [2, 3]],
      [(e) => e.update(key, () => undefined), 1, 1, [1, 1]],
      [(e) => e.replace({ ...jones, lastName: "Lee" }), 2, 2, [2, 3]],
      [(e) => e.delete(key), 2, 2, [2, 3]],
      [(e) => e.delete(key, { force: true }), 1, 1, [2, 3]],
      [(e) => e.get(key), 1, 1, [1, 1]],
      [(e) => e.getMany([key, key, key]), 3, 3, [3, 3]],
    ];
    for (const [i, [work, requests, entities, indexed]] of works.entries()) {
      for (const [definition, expected] of [
        [Employee, [requests, entities]],
        [Indexed, indexed],
      ] as const) {
        const { db } = await open();
        await db.open(definition).insert(jones);
        const cost = await db.metered((metered) => work(metered.open<Common>(definition)));
        assert.deepEqual([cost.requests, cost.entities], expected, `${i}`);
      }
    }
    for (const definition of [Employee, Indexed]) {
      const isIndexed = definition === Indexed;
      const { db } = await open();
      const saved = await db.open(definition).insert(jones);
      const replaced = await db.metered((metered) =>
        metered.open(definition).replaceIfUnchanged({ ...saved, lastName: "Lee" }),
      );
      const deleted = await db.metered((metered) =>
        metered.open(definition).deleteIfUnchanged(replaced.result),
      );
      assert.deepEqual([replaced.requests, deleted.requests], [2, isIndexed ? 2 : 1]);
    }
    const { db } = await open();
    const merged = await db.metered((metered) =>
      metered.open(Employee).insertOrMerge({ ...key, age: 3 }),
    );
    assert.deepEqual([merged.requests, merged.entities], [1, 1]);
  });

  it("names every invalid field, and the owner of a key that is taken", async () => {
    const { backend, employees } = await open();
    const { lastName: _lastName, ...rest } = jones;
    const invalid = { ...rest, email: 7, age: 1.5, town: "Bonn" };
    await assert.rejects(employees.insert(invalid as never), (error) => {
      assert.ok(isTableError(error, "validation-failed"));
      assert.deepEqual(
        error.issues.map(({ path }) => path),
        ["town", "email", "lastName", "age"],
      );
      return true;
    });
    assert.deepEqual((await backend.tables.query("Employee", {})).entities, []);
    await employees.insert(jones);
    await assert.rejects(employees.insert(jones), (error) => {
      assert.ok(isTableError(error, "unique-violation"));
      const owner = { partitionKey: "Sales", rowKey: "empid_000223" };
      assert.deepEqual([error.index, error.owner], ["key", owner]);
      return true;
    });
  });
});
