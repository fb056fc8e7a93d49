import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { copies } from "./copies.ts";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const partition = [k.str("dept")] as const;
const Employee = entity("Employee", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), fullName: f.string() },
  key: { partition, row: [k.lit("empid"), k.uint("id", 6)] },
});
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
const FarHeads = copies(Employee, Page, options);
const near = { Copies: Heads, Target: Department };
const far = { Copies: FarHeads, Target: Page };
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
          const cleared = copies(Employee, which.Target, { ...options, onDelete: "clear" });
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
      const cleared = copies(Employee, which.Target, { ...options, onDelete: "clear" });
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

  it("are kept, cleared, or prevent the deletion when their source is deleted, as declared", async () => {
    for (const which of [near, far]) {
      const remove = async (onDelete: "keep" | "clear" | "reject") => {
        const { db } = await open();
        const heads = db.open(copies(Employee, which.Target, { ...options, onDelete }));
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
