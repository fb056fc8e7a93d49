import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inbox, inboxIn } from "./inbox.ts";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { Layer } from "./store/layer.ts";
import { schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { crashEverywhere, intercept, interleave, memory } from "./testing.ts";

const Seen = inbox("Seen", { keepDays: 2 });
const message = { id: "01H", at: "2026-01-01T10:00:00.000Z" };

describe("an inbox", () => {
  it("returns the recorded outcome in one request when a message is delivered again", async () => {
    const backend = memory();
    const db = connect(backend);
    let effects = 0;
    const effect = async () => ({ effects: ++effects });
    assert.deepEqual(await db.open(Seen).once(message, effect), { effects: 1 });
    const again = await db.metered((metered) => metered.open(Seen).once(message, effect));
    assert.deepEqual([again.result, again.requests, effects], [{ effects: 1 }, 1, 1]);
    const { names } = await backend.tables.listTables({});
    assert.deepEqual(names, ["Seen20260101"]);
    assert.equal(await db.open(Seen).once({ ...message, id: "02" }, async () => null), null);
  });

  it("records an outcome that is longer than one property", async () => {
    const backend = memory();
    const db = connect(backend);
    const long = `${"x".repeat(32_766)}👩‍🚀${"y".repeat(40_000)}`;
    assert.equal(await db.open(Seen).once(message, async () => long), long);
    assert.equal(await db.open(Seen).once(message, async () => "again"), long);
    const [row] = (await backend.tables.query("Seen20260101", {})).entities;
    for (const { value } of Object.values(row?.properties ?? {})) {
      assert.ok(String(value).length <= 32_768);
    }
  });

  it("refuses a message with an invalid time before running its effect", async () => {
    for (const at of ["yesterday", "", "+010000-01-01T00:00:00.000Z"]) {
      const effect = async () => assert.fail("It had its effect.");
      const once = connect(memory())
        .open(Seen)
        .once({ ...message, at }, effect);
      await assert.rejects(once, (error) => {
        assert.ok(isTableError(error, "validation-failed"), String(error));
        assert.deepEqual(
          error.issues.map(({ path }) => path),
          ["at"],
        );
        return true;
      });
    }
  });

  it("runs an effect again only if a crash prevented its outcome from being recorded", async () => {
    let effects = 0;
    await crashEverywhere((db) => db.open(Seen).once(message, async () => ++effects), {
      before: async () => {
        effects = 0;
      },
      check: async (db) => {
        const ran = effects;
        const recorded = await db.open(Seen).once(message, async () => ++effects);
        assert.ok(effects <= 2 && recorded >= 1 && recorded <= Math.max(1, ran + 1));
      },
    });
  });

  it("runs an effect once if answers are lost", async () => {
    let effects = 0;
    const lost = await loseEveryAnswer((db) => db.open(Seen).once(message, async () => ++effects), {
      before: async () => {
        effects = 0;
      },
      check: async (db) => {
        assert.equal(await db.open(Seen).once(message, async () => ++effects), 1);
        assert.equal(effects, 1);
      },
    });
    assert.ok(lost >= 3);
  });

  it("returns the same outcome for two concurrent deliveries", async () => {
    const outcomes: number[] = [];
    let effects = 0;
    const deliver = async (db: Database) => {
      outcomes.push(await db.open(Seen).once(message, async () => ++effects));
    };
    await interleave({
      before: async () => {
        outcomes.length = 0;
        effects = 0;
      },
      clients: { one: deliver, two: deliver },
      check: async () => {
        assert.equal(new Set(outcomes).size, 1);
      },
      runs: "all",
    });
  });

  it("forgets by dropping only its own tables of expired days", async () => {
    const backend = memory();
    const db = connect(backend);
    for (const day of ["20251229", "20251230", "20251231", "20260101"]) {
      await db.tables.createTable(`Seen${day}`);
    }
    await db.tables.createTable("Seen2Other");
    assert.equal(await db.open(Seen).forget(), 1);
    const { names } = await backend.tables.listTables({});
    assert.deepEqual(names, ["Seen20251230", "Seen20251231", "Seen20260101", "Seen2Other"]);
  });

  it("keeps records for eight days by default, one more than a message lives", async () => {
    const db = connect(memory());
    const Kept = inbox("Kept");
    for (const day of ["20251223", "20251224", "20260101"]) {
      await db.tables.createTable(`Kept${day}`);
    }
    assert.equal(await db.open(Kept).forget(), 1);
    const { names } = await db.tables.listTables({});
    assert.deepEqual(names, ["Kept20251224", "Kept20260101"]);
  });
});

const Account = entity("Account", {
  version: 1,
  fields: { bank: f.string(), id: f.int32(), balance: f.int32() },
  key: { partition: [k.str("bank")], row: [k.lit("account"), k.uint("id", 4)] },
});
const Handled = inboxIn(Account);
const bank = { bank: "b" };
const ann = { ...bank, id: 1 };

const pay = (db: Database) =>
  db
    .open(Handled)
    .once(bank, message, (tx) =>
      tx.update(Account, ann, ({ balance }) => ({ balance: balance + 10 })),
    );
const before = async (db: Database) => {
  await db.createTables(Account);
  await db.open(Account).insert({ ...ann, balance: 0 });
};
const balanceIn = async (db: Database) => (await db.open(Account).mustGet(ann)).balance;

describe("an inbox in the partition it changes", () => {
  it("runs an effect once, and records the message in the same transaction", async () => {
    const backend = memory();
    const db = connect(backend);
    await before(db);
    const first = await db.metered(pay);
    // The inbox row, the account, the transaction.
    assert.deepEqual([first.result, first.requests], [true, 3]);
    const again = await db.metered(pay);
    assert.deepEqual([again.result, again.requests], [false, 1]);
    assert.equal(await balanceIn(db), 10);
    const rows = (await backend.tables.query("Account", {})).entities;
    assert.deepEqual(
      rows.map(({ partitionKey, rowKey }) => [partitionKey, rowKey]),
      [
        ["b", "account_0001"],
        ["b", "inbox_01H"],
      ],
    );
    assert.deepEqual(rows[1]?.properties.rh_t, { type: "String", value: "Handled:1" });
    assert.equal((await db.open(Account).range(bank).all()).length, 1);
  });

  it("runs an effect once despite crashes, lost answers and concurrent deliveries", async () => {
    const check = async (db: Database) => assert.equal(await balanceIn(db), 10);
    await crashEverywhere(pay, { before, recover: pay, check });
    assert.equal(await loseEveryAnswer(pay, { before, check }), 3);
    const clients = { one: pay, two: pay, three: pay };
    await interleave({
      clients,
      before,
      recover: pay,
      check,
      crashShare: 0.1,
      runs: schedules(600),
    });
  });

  it("would run an effect twice if the message were not recorded (the check notices)", async () => {
    const forgetful: Layer = ({ method, args }, send) => {
      const mutations = args[1];
      if (method === "commit" && Array.isArray(mutations) && mutations.length > 1) {
        mutations.splice(0, 1);
      }
      return send();
    };
    const check = async (db: Database) => assert.equal(await balanceIn(db), 10);
    const clients = { one: pay, two: pay };
    const layer = () => forgetful;
    await assert.rejects(interleave({ clients, before, check, layer, seed: 1 }), /Fails with/);
  });

  it("records nothing if the effect is refused, and passes that error on", async () => {
    const db = connect(memory());
    await before(db);
    const inboxOf = db.open(Handled);
    const twice = inboxOf.once(bank, message, (tx) => tx.insert(Account, { ...ann, balance: 5 }));
    await assert.rejects(twice, (error) => isTableError(error, "unique-violation"));
    assert.equal(await pay(db), true);
  });

  it("forgets old messages and no others", async () => {
    const backend = memory();
    const db = connect(backend);
    await before(db);
    await pay(db);
    backend.clock.advance(9 * 24 * 3_600_000);
    const later = { id: "02" };
    await db.open(Handled).once(bank, later, () => undefined);
    assert.equal(await db.open(Handled).forget(bank), 1);
    assert.equal(await db.open(Handled).once(bank, later, () => undefined), false);
    assert.equal(await pay(db), true);
  });

  it("refuses an age that is negative or not a number, and deletes nothing", async () => {
    const db = connect(memory());
    await before(db);
    await pay(db);
    for (const olderThanMs of [Number.NaN, -1, "0" as unknown as number]) {
      await assert.rejects(
        db.open(Handled).forget(bank, olderThanMs),
        /The inbox is refused: olderThanMs: (NaN|-1|0) is not a number from 0 to Infinity/,
      );
    }
    assert.equal(await pay(db), false);
  });

  it("remembers a message that was forgotten and delivered again during a second, slower forget", async () => {
    const backend = memory();
    const db = connect(backend);
    await before(db);
    await pay(db);
    backend.clock.advance(9 * 24 * 3_600_000);
    let isFirst = true;
    const slow: Layer = async ({ method }, send) => {
      if (method === "commit" && isFirst) {
        isFirst = false;
        assert.equal(await db.open(Handled).forget(bank), 1);
        assert.equal(await pay(db), true);
      }
      return send();
    };
    const late = connect({ ...backend, ...intercept(backend, slow) });
    assert.equal(await late.open(Handled).forget(bank), 0);
    assert.equal(isFirst, false);
    assert.equal(await pay(db), false);
  });

  it("refuses an id that no row can have, before its effect", async () => {
    const db = connect(memory());
    const seen = db.open(inbox("Seen"));
    const at = new Date(db.clock.now()).toISOString();
    for (const [id, code] of [
      ["x".repeat(513), "key-too-long"],
      ["", "validation-failed"],
    ] as const) {
      const once = db.metered(() => seen.once({ id, at }, async () => assert.fail("no effect")));
      await assert.rejects(once, (error) => isTableError(error, code));
    }
    const nothing = seen.once(undefined as never, async () => assert.fail("no effect"));
    await assert.rejects(nothing, (error) => isTableError(error, "validation-failed"));
  });

  it("is refused for an entity whose keys it could collide with", () => {
    const declare = (row: KeyDeclaration) =>
      inboxIn(
        entity("Account", {
          version: 1,
          fields: { bank: f.string(), id: f.string() },
          key: { partition: [k.str("bank")], row },
        }),
      );
    const isRefused = (error: unknown) => isTableError(error, "invalid-definition");
    assert.throws(() => declare([k.str("id")]), isRefused);
    assert.throws(() => declare([k.lit("inbox"), k.str("id")]), isRefused);
  });
});
