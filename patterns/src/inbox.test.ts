import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inbox } from "./inbox.ts";
import { connect } from "./index.ts";
import { crashEverywhere, interleave, memory } from "./testing.ts";

const Seen = inbox("Seen", { keepDays: 2 });
const message = { id: "01H", at: "2026-01-01T10:00:00.000Z" };

describe("an inbox", () => {
  it("gives the recorded outcome when a message comes again, in one request", async () => {
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

  it("runs an effect again only when nobody knows that it ran", async () => {
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

  it("tells two deliveries at the same time the same outcome", async () => {
    const outcomes: number[] = [];
    let effects = 0;
    const deliver = async (db: Parameters<typeof Seen.open>[0]) => {
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

  it("forgets by dropping the tables of days gone by, and no others", async () => {
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
});
