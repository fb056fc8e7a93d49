import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { entity, f, k } from "../index.ts";
import { siblingIndex } from "../sibling-index.ts";
import { crashEverywhere } from "./crash-everywhere.ts";

const Account = entity("Account", {
  version: 1,
  fields: { owner: f.string(), id: f.int32(), email: f.string(), balance: f.int32() },
  key: { partition: [k.str("owner")], row: [k.lit("id"), k.uint("id", 4)] },
  indexes: { email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }) },
});
const ann = { owner: "ann", id: 1, email: "a", balance: 10 };
const bob = { owner: "bob", id: 2, email: "b", balance: 0 };

describe("crashEverywhere", () => {
  it("crashes twice at each request, and a transaction stays whole", async () => {
    const before = async (db: Parameters<Parameters<typeof crashEverywhere>[0]>[0]) => {
      await db.createTables(Account);
      await db.open(Account).insert(ann);
    };
    const crashes = await crashEverywhere(
      (db) => db.open(Account).update({ owner: "ann", id: 1 }, () => ({ email: "c" })),
      {
        before,
        check: async (db) => {
          const found = await db.open(Account).mustGet({ owner: "ann", id: 1 });
          const { email } = found;
          assert.equal((await db.open(Account).by.email.get({ owner: "ann", email }))?.id, 1);
        },
      },
    );
    assert.equal(crashes, 4);
  });

  it("finds the crash that tears two writes apart, even if the code uses finally", async () => {
    const torn = crashEverywhere(
      async (db) => {
        const accounts = db.open(Account);
        try {
          await accounts.update({ owner: "ann", id: 1 }, () => ({ balance: 5 }));
        } finally {
          await accounts.update({ owner: "bob", id: 2 }, () => ({ balance: 5 }));
        }
      },
      {
        before: async (db) => {
          await db.createTables(Account);
          await Promise.all([db.open(Account).insert(ann), db.open(Account).insert(bob)]);
        },
        check: async (db) => {
          const [a, b] = await db.open(Account).getMany([
            { owner: "ann", id: 1 },
            { owner: "bob", id: 2 },
          ]);
          assert.equal((a?.balance ?? 0) + (b?.balance ?? 0), 10);
        },
      },
    );
    await assert.rejects(torn, /crash at request 2, before its answer: tables.commit/);
  });

  it("connects the operation as asked, whatever the backend says", async () => {
    const asked = { stateOf: async () => ({ state: "readable", commitByMs: 0 }) as const };
    const seen = new Set<unknown>();
    await crashEverywhere(
      async (db) => {
        seen.add(db.indexStates);
        await db.tables.createTable("Any");
      },
      { connect: { indexStates: () => asked }, check: async () => undefined },
    );
    assert.deepEqual([...seen], [asked]);
  });
});
