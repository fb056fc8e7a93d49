import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, f, isTableError, k } from "./index.ts";
import { logTail } from "./log-tail.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const Expense = logTail("EmployeeExpense", {
  fields: { empId: f.string(), filedAt: f.date(), amount: f.int32() },
  stream: [k.str("empId")],
  at: "filedAt",
});
const stream = { empId: "000123" };
const day = (n: number) => new Date(Date.UTC(2014, 6, n));

async function open(options: Parameters<typeof memory>[0] = {}) {
  const backend = memory(options);
  const db = connect(backend);
  await db.createTables(Expense);
  return { backend, db, log: db.open(Expense) };
}

describe("a log tail", () => {
  it("keys an entry by its time in descending order", async () => {
    const { backend, log } = await open();
    await log.append({ ...stream, filedAt: new Date("2014-07-31T18:00:00Z"), amount: 5 });
    const { entities } = await backend.tables.query("EmployeeExpense", {});
    assert.equal(entities[0]!.partitionKey, "000123");
    assert.match(entities[0]!.rowKey, /^2519954711999999999_zy[0-9a-hjkmnp-tv-z]{24}$/);
    assert.deepEqual(entities[0]!.properties.amount, { type: "Int32", value: 5 });
    assert.deepEqual(entities[0]!.properties.rh_t, { type: "String", value: "EmployeeExpense:1" });
  });

  it("returns the newest entries first, whatever order they were appended in", async () => {
    const times = fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(times, fc.nat(60), fc.nat(50), async (millis, count, cut) => {
        const { log } = await open();
        await Promise.all(
          millis.map((ms) => log.append({ ...stream, filedAt: new Date(ms), amount: ms })),
        );
        const newestFirst = millis.toSorted((a, b) => b - a);
        const amounts = (rows: readonly { amount: number }[]) => rows.map(({ amount }) => amount);
        assert.deepEqual(
          amounts(await log.tail(stream, count + 1)),
          newestFirst.slice(0, count + 1),
        );
        const at = new Date(cut);
        assert.deepEqual(
          amounts(await log.since(stream, at).all()),
          newestFirst.filter((ms) => ms > cut),
        );
        assert.deepEqual(
          amounts(await log.before(stream, at).all()),
          newestFirst.filter((ms) => ms < cut),
        );
      }),
      histories(40),
    );
  });

  it("returns entries of the same millisecond newest first, and follows them in the order of their appends", async () => {
    const { backend, db, log } = await open();
    const start = backend.clock.now();
    const logs = [
      log,
      db.until(new AbortController().signal).open(Expense),
      db.inTime(() => start + 60_000).open(Expense),
      (await db.metered(async (metered) => metered.open(Expense))).result,
    ];
    const amounts = Array.from({ length: 12 }, (_, i) => i);
    for (const amount of amounts) await logs[amount % 4]!.append({ ...stream, amount });
    assert.equal(backend.clock.now(), start);
    // Later appends with the same time sort before them too.
    backend.clock.advance(1);
    await log.append({ ...stream, filedAt: new Date(start), amount: 12 });
    const newest = await log.tail(stream, 20);
    assert.deepEqual(
      newest.map(({ amount }) => amount),
      [12, ...amounts.toReversed()],
    );
    const seen: number[] = [];
    for await (const { amount } of log.follow(stream, { from: new Date(start) })) {
      if (seen.push(amount) === 13) break;
    }
    assert.deepEqual(seen, [...amounts, 12]);
  });

  it("reads and pages through entries whose ids are plain ULIDs", async () => {
    const { backend, log } = await open();
    const at = (ms: number) => new Date(Date.UTC(2026, 0, 1) + ms);
    for (const ms of [0, 2]) await log.append({ ...stream, filedAt: at(ms), amount: ms });
    const [row] = (await backend.tables.query("EmployeeExpense", {})).entities;
    const { rowKey, properties } = row!;
    const entryId = "01kdvr7e00zzzzzzzzzzzzzzzz";
    const ticks = String(BigInt(rowKey.slice(0, 19)) + 10_000n);
    await backend.tables.commit("EmployeeExpense", [
      {
        kind: "insert",
        partitionKey: stream.empId,
        rowKey: `${ticks}_${entryId}`,
        properties: {
          ...properties,
          filedAt: { type: "DateTime", value: at(1).toISOString() },
          amount: { type: "Int32", value: 1 },
          entryId: { type: "String", value: entryId },
        },
      },
    ]);
    const entries = await log.all(stream).all();
    assert.deepEqual(
      entries.map(({ amount }) => amount),
      [2, 1, 0],
    );
    assert.equal(entries[1]?.entryId, entryId);
    const first = await log.all(stream).limit(2).page(undefined);
    assert.deepEqual((await log.all(stream).page(first.cursor)).items, entries.slice(2));
  });

  it("returns the same from an endpoint that promises no order", async () => {
    const { log } = await open({ profile: "cosmos" });
    for (const n of [3, 1, 2]) await log.append({ ...stream, filedAt: day(n), amount: n });
    assert.deepEqual(
      (await log.tail(stream, 2)).map(({ amount }) => amount),
      [3, 2],
    );
  });

  it("keeps a cursor valid while new entries arrive at the head", async () => {
    const { log } = await open();
    for (const n of [1, 2, 3]) await log.append({ ...stream, filedAt: day(n), amount: n });
    const first = await log.all(stream).limit(1).page(undefined);
    await log.append({ ...stream, filedAt: day(4), amount: 4 });
    const rest = await log.all(stream).page(first.cursor);
    assert.deepEqual(
      [...first.items, ...rest.items].map(({ amount }) => amount),
      [3, 2, 1],
    );
  });

  it("follows new entries oldest first, and returns late ones once", async () => {
    const { backend, log } = await open();
    const start = backend.clock.now();
    const at = (ms: number) => ({ ...stream, filedAt: new Date(start + ms), amount: ms });
    await log.append(at(-10));
    await log.append(at(0));
    const seen: number[] = [];
    for await (const { amount } of log.follow(stream)) {
      seen.push(amount);
      if (seen.length === 1) await Promise.all([log.append(at(300)), log.append(at(200))]);
      if (seen.length === 3) await log.append(at(100));
      if (seen.length === 4) break;
    }
    assert.deepEqual(seen, [0, 200, 300, 100]);
    const ended = log.follow(stream, { signal: AbortSignal.abort(new Error("enough")) });
    await assert.rejects(async () => {
      for await (const _ of ended);
    }, /enough/);
  });

  it("follows from a time in the past", async () => {
    const { backend, log } = await open();
    const start = backend.clock.now();
    const at = (ms: number) => ({ ...stream, filedAt: new Date(start + ms), amount: ms });
    for (const ms of [-30_000, -20_000, -10_000]) await log.append(at(ms));
    const seen: number[] = [];
    for await (const { amount } of log.follow(stream, { from: new Date(start - 20_000) })) {
      if (seen.push(amount) === 2) break;
    }
    assert.deepEqual(seen, [-20_000, -10_000]);
  });

  it("keeps following after an entry whose time is in the future", async () => {
    const { backend } = await open();
    const end = new AbortController();
    let pages = 0;
    const onPage = () => (++pages === 20 ? end.abort(new Error("It never came.")) : undefined);
    const log = connect({ ...backend, onPage }).open(Expense);
    const at = (ms: number) => ({
      ...stream,
      filedAt: new Date(backend.clock.now() + ms),
      amount: ms,
    });
    await log.append(at(3_600_000));
    const seen: number[] = [];
    for await (const { amount } of log.follow(stream, { signal: end.signal })) {
      seen.push(amount);
      if (seen.length === 1) await log.append(at(1));
      if (seen.length === 2) break;
    }
    assert.deepEqual(seen, [3_600_000, 1]);
  });

  it("costs one request for each append and tail, and two for a short trim", async () => {
    const { db, log } = await open();
    for (const n of [1, 2, 3]) await log.append({ ...stream, filedAt: day(n), amount: n });
    const tail = await db.metered((metered) => metered.open(Expense).tail(stream, 2));
    assert.deepEqual([tail.requests, tail.entities], [1, 2]);
    const trim = await db.metered((metered) => metered.open(Expense).trimBefore(stream, day(3)));
    assert.deepEqual([trim.requests, trim.entities, trim.result], [2, 4, 2]);
  });

  it("refuses times that its keys or properties cannot hold", async () => {
    const { log } = await open();
    for (const ms of [Date.UTC(9999, 11, 31, 23, 59, 59, 999), Date.UTC(1601, 0, 1)]) {
      await log.append({ ...stream, filedAt: new Date(ms), amount: 1 });
    }
    for (const ms of [Date.UTC(10_000, 0, 1), Date.UTC(1601, 0, 1) - 1, Number.NaN]) {
      await assert.rejects(log.append({ ...stream, filedAt: new Date(ms), amount: 1 }), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });

  const before = async (db: Database) => {
    await db.createTables(Expense);
    for (const n of [1, 2, 3]) {
      await db.open(Expense).append({ ...stream, filedAt: day(n), amount: n });
    }
  };
  const trim = (db: Database) => db.open(Expense).trimBefore(stream, day(3));

  it("finishes trimming when it is run again after a crash", async () => {
    const crashes = await crashEverywhere(trim, {
      before,
      recover: trim,
      check: async (db) => assert.equal((await db.open(Expense).all(stream).all()).length, 1),
    });
    assert.equal(crashes, 4);
  });

  it("appends once and trims fully if answers are lost", async () => {
    await loseEveryAnswer(
      (db) => db.open(Expense).append({ ...stream, filedAt: day(4), amount: 4 }),
      {
        before,
        check: async (db) => assert.equal((await db.open(Expense).all(stream).all()).length, 4),
      },
    );
    await loseEveryAnswer(trim, {
      before,
      check: async (db) => assert.equal((await db.open(Expense).all(stream).all()).length, 1),
    });
  });
});
