import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { batch } from "./batch.ts";
import { copies } from "./copies.ts";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const partition = [k.str("dept")] as const;
const employee = () =>
  entity("Employee", {
    version: 1,
    table: "Staff",
    fields: {
      dept: f.string(),
      id: f.int32(),
      fullName: f.string(),
      age: f.int32().optional(),
    },
    key: { partition, row: [k.lit("empid"), k.uint("id", 6)] },
  });
const Employee = employee();
const FarEmployee = employee();
const departmentFields = {
  dept: f.string(),
  managerId: f.int32().optional(),
  managerName: f.string().optional(),
};
const Department = entity("Department", {
  version: 1,
  table: "Staff",
  fields: departmentFields,
  key: { partition, row: [k.lit("Department")] },
});
const Page = entity("Page", {
  version: 1,
  fields: departmentFields,
  key: { partition: [k.lit("page")], row: [k.str("dept")] },
});
type Target = { dept: string; managerId?: number; managerName?: string };
const options = {
  via: ({ dept, managerId }: Target) =>
    managerId === undefined ? undefined : { dept, id: managerId },
  targets: ({ dept }: { dept: string }) => [{ dept }],
  copy: { managerName: "fullName" },
} as const;
const Heads = copies(Employee, Department, options);
const FarHeads = copies(FarEmployee, Page, options);
const near = { Copies: Heads, Source: Employee, Target: Department };
const far = { Copies: FarHeads, Source: FarEmployee, Target: Page };
const [ann, bob] = [
  { dept: "Sales", id: 1, fullName: "Ann" },
  { dept: "Sales", id: 2, fullName: "Bob" },
];
const sales = { dept: "Sales" };

const before = async (db: Database) => {
  await db.createTables(Heads, FarHeads);
  for (const heads of [db.open(Heads), db.open(FarHeads)]) {
    for (const employee of [ann, bob]) await heads.putSource(employee);
    await heads.putTarget({ dept: "Sales", managerId: 1 });
  }
};

async function open() {
  const backend = memory();
  const db = connect(backend);
  await before(db);
  return { backend, db };
}

const nameIn = async (db: Database, { Target }: typeof near | typeof far) =>
  (await db.open(Target).get(sales))?.managerName;
const rename = (fullName: string, which: typeof near | typeof far) => (db: Database) =>
  db.open(which.Copies).updateSource({ dept: "Sales", id: 1 }, () => ({ fullName }));
const appoint = (managerId: number, which: typeof near | typeof far) => (db: Database) =>
  db.open(which.Copies).putTarget({ dept: "Sales", managerId });

/** The copy equals the source. */
const agrees = (which: typeof near | typeof far) => async (db: Database) => {
  const { managerId, managerName } = await db.open(which.Target).mustGet(sales);
  const source = await db.open(Employee).get({ dept: "Sales", id: managerId ?? 0 });
  assert.equal(managerName, source?.fullName);
};

describe("copies", () => {
  it("are stored next to the reference, so reading them costs no second request", async () => {
    const { backend, db } = await open();
    const key = { partitionKey: "Sales", rowKey: "Department" };
    const { properties } = (await backend.tables.get("Staff", key))!;
    assert.deepEqual(properties.managerName, { type: "String", value: "Ann" });
    assert.deepEqual(properties.managerId, { type: "Int32", value: 1 });
    const { requests, result } = await db.metered((metered) => nameIn(metered, near));
    assert.deepEqual([requests, result], [1, "Ann"]);
  });

  it("follow their source in one transaction within a partition, and by one write each across partitions", async () => {
    const { db } = await open();
    const cost = async (work: (db: Database) => Promise<unknown>) => {
      const { requests, entities } = await db.metered(work);
      return [requests, entities];
    };
    assert.deepEqual(await cost(rename("Anna", near)), [3, 4]);
    assert.equal(await nameIn(db, near), "Anna");
    assert.equal((await cost(rename("Anne", far)))[0], 5);
    assert.equal(await nameIn(db, far), "Anne");
    assert.equal((await cost(appoint(2, near)))[0], 3);
    assert.equal((await cost(appoint(2, far)))[0], 5);
  });

  for (const [place, which] of [
    ["in one partition", near],
    ["across partitions", far],
  ] as const) {
    it(`agree with their source after any history ${place}`, async () => {
      const command = fc.tuple(
        fc.constantFrom("rename", "appoint", "delete", "hire"),
        fc.integer({ min: 1, max: 2 }),
        fc.constantFrom("x", "y", "z"),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(command, { maxLength: 20 }), async (commands) => {
          const { db } = await open();
          const cleared = copies(which.Source, which.Target, { ...options, onDelete: "clear" });
          const heads = db.open(cleared);
          for (const [kind, id, fullName] of commands) {
            const key = { dept: "Sales", id };
            if (kind === "hire") await heads.putSource({ ...key, fullName });
            if (kind === "appoint") await heads.putTarget({ dept: "Sales", managerId: id });
            if (kind === "delete") await heads.deleteSource(key);
            if (kind === "rename") {
              const renamed = heads.updateSource(key, () => ({ fullName }));
              await renamed.catch((error) => assert.ok(isTableError(error, "not-found")));
            }
            await agrees(which)(db);
          }
        }),
        histories(25),
      );
    });

    it(`agree with their source if it is renamed while another source is appointed ${place}`, async () => {
      const clients = {
        rename: rename("Anna", which),
        appoint: appoint(2, which),
        back: appoint(1, which),
      };
      await interleave({ before, clients, check: agrees(which), runs: schedules(300) });
    });

    it(`agree with their source if its old name is restored concurrently ${place}`, async () => {
      const clients = {
        rename: rename("Anna", which),
        back: rename("Ann", which),
        sync: (db: Database) => db.open(which.Copies).sync(sales),
      };
      await interleave({ before, clients, check: agrees(which), runs: schedules(500) });
    });

    it(`agree with their source if it is inserted or deleted while being appointed ${place}`, async () => {
      const cleared = copies(which.Source, which.Target, { ...options, onDelete: "clear" });
      const changes = [
        [2, (db: Database) => db.open(cleared).deleteSource(bob)],
        [3, (db: Database) => db.open(cleared).putSource({ ...bob, id: 3 })],
      ] as const;
      for (const [id, change] of changes) {
        const clients = { appoint: appoint(id, { ...which, Copies: cleared }), change };
        await interleave({ before, clients, check: agrees(which), runs: schedules(200) });
      }
    });

    it(`survive crashes and lost answers ${place}`, async () => {
      for (const operation of [rename("Anna", which), appoint(2, which)]) {
        const recover = (db: Database) => db.open(which.Copies).sync(sales);
        await crashEverywhere(operation, { before, recover, check: agrees(which) });
        await loseEveryAnswer(operation, { before, check: agrees(which) });
      }
    });
  }

  for (const [place, which] of [
    ["in one partition", near],
    ["across partitions", far],
  ] as const) {
    it(`follow every other write of their source and their target ${place}`, async () => {
      const key = { dept: "Sales", id: 1 };
      const { Source, Target } = which;
      const writes: Record<string, (db: Database) => Promise<unknown>> = {
        update: (db) => db.open(Source).update(key, () => ({ fullName: "Anna" })),
        replace: (db) => db.open(Source).replace({ ...ann, fullName: "Anna" }),
        replaceIfUnchanged: async (db) => {
          const stored = await db.open(Source).mustGet(key);
          return db.open(Source).replaceIfUnchanged({ ...stored, fullName: "Anna" });
        },
        upsert: (db) => db.open(Source).upsert({ ...ann, fullName: "Anna" }),
        transaction: (db) =>
          db.tx(sales, (tx) => tx.update(Source, key, () => ({ fullName: "Anna" }))),
        insert: async (db) => {
          await db.open(Target).update(sales, () => ({ managerId: 3 }));
          await db.open(Source).insert({ ...ann, id: 3, fullName: "Cid" });
        },
        batch: async (db) => {
          await db.open(Target).update(sales, () => ({ managerId: 3 }));
          await batch(db, (b) => b.insert(Source, { ...ann, id: 3, fullName: "Cid" }));
        },
        "another manager": (db) => db.open(Target).update(sales, () => ({ managerId: 2 })),
        "a copy changed": (db) => db.open(Target).update(sales, () => ({ managerName: "Xaver" })),
        "a target replaced": (db) => db.open(Target).upsert({ dept: "Sales", managerId: 2 }),
      };
      copies(Source, Target, options);
      for (const [name, write] of Object.entries(writes)) {
        const { db } = await open();
        await write(db);
        await agrees(which)(db).catch((error) => assert.fail(`${name}: ${error.message}`));
        assert.notEqual(await nameIn(db, which), undefined, name);
      }
      const { db } = await open();
      const { requests } = await db.metered((metered) =>
        metered.open(Source).update(key, () => ({ age: 40 })),
      );
      assert.equal(requests, 2, "a field that is not copied");
      const upserted = batch(db, (b) => b.upsert(Source, { ...ann, fullName: "Anna" }));
      await assert.rejects(upserted, (error) => isTableError(error, "validation-failed"));
      const merged: Promise<void> = db.open(Source).insertOrMerge({ ...key, fullName: "Anna" });
      await assert.rejects(merged, (error) => isTableError(error, "validation-failed"));
      assert.equal(await nameIn(db, which), "Ann");
    });

    it(`agree with their source if it is updated plainly while another is appointed ${place}`, async () => {
      copies(which.Source, which.Target, options);
      const update = (db: Database) =>
        db.open(which.Source).update({ dept: "Sales", id: 1 }, () => ({ fullName: "Anna" }));
      const plainly = (db: Database) =>
        db.open(which.Target).update(sales, () => ({ managerId: 2 }));
      const clients = { update, appoint: appoint(2, which), plainly, back: appoint(1, which) };
      await interleave({ before, clients, check: agrees(which), runs: schedules(60) });
    });

    it(`are cleared, or prevent the deletion, when their source is deleted plainly ${place}`, async () => {
      for (const onDelete of ["clear", "reject"] as const) {
        copies(which.Source, which.Target, { ...options, onDelete });
        const { db } = await open();
        const deleted = db.open(which.Source).delete({ dept: "Sales", id: 1 });
        if (onDelete === "reject") {
          await assert.rejects(deleted, (error) => isTableError(error, "validation-failed"));
        } else {
          assert.equal(await deleted, true);
        }
        assert.equal(await nameIn(db, which), onDelete === "reject" ? "Ann" : undefined);
      }
      copies(which.Source, which.Target, options);
    });
  }

  it("do not follow writes of the definition in another table", async () => {
    const { db } = await open();
    const Other = Employee.in("Other");
    await db.createTables(Other);
    await db.open(Other).insert({ ...ann, fullName: "Elsewhere" });
    assert.equal(await nameIn(db, near), "Ann");
  });

  it("are kept, cleared, or prevent the deletion when their source is deleted, as declared", async () => {
    for (const which of [near, far]) {
      const remove = async (onDelete: "keep" | "clear" | "reject") => {
        const { db } = await open();
        const heads = db.open(copies(which.Source, which.Target, { ...options, onDelete }));
        const removed = await heads.deleteSource({ dept: "Sales", id: 1 }).catch((error) => {
          assert.ok(isTableError(error, "validation-failed"));
          return "refused";
        });
        assert.equal(await heads.deleteSource({ dept: "Sales", id: 9 }), false);
        return [removed, await nameIn(db, which)];
      };
      assert.deepEqual(await remove("keep"), [true, "Ann"]);
      assert.deepEqual(await remove("clear"), [true, undefined]);
      assert.deepEqual(await remove("reject"), ["refused", "Ann"]);
    }
  });

  it("stay unchanged, for one read, if the change of the source returns nothing", async () => {
    const { db } = await open();
    const { requests } = await db.metered((metered) =>
      metered.open(Heads).updateSource({ dept: "Sales", id: 1 }, () => undefined),
    );
    assert.equal(requests, 1);
    assert.equal(await nameIn(db, near), "Ann");
  });

  it("are refused for fields that cannot hold them", () => {
    const refused = (copy: Record<string, "fullName">) =>
      assert.throws(
        () => copies(Employee, Department, { ...options, copy }),
        (error) => isTableError(error, "invalid-definition"),
      );
    refused({ managerId: "fullName" });
    refused({ dept: "fullName" });
  });
});
