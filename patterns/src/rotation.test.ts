import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { PortError } from "./ports/port-error.ts";
import { remoteIndex } from "./remote-index.ts";
import { rotating } from "./rotation.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { FakeClock } from "./testing/fake-clock.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const fields = { user: f.string(), at: f.date(), id: f.string(), ok: f.bool() };
const Attempt = entity("LoginAttempts", {
  version: 1,
  fields,
  key: { partition: [k.str("user")], row: [k.date("at"), k.str("id")] },
});
const Attempts = rotating(Attempt, { at: "at", unit: "day", keep: 2 });
const HOUR_MS = 3_600_000;
const NOW = Date.UTC(2014, 6, 31, 18);
const at = (text: string) => new Date(`${text}Z`);
const attempt = (time: Date, id = "1") => ({ user: "ann", at: time, id, ok: true });

function open(options: { now?: number; definition?: typeof Attempts } = {}) {
  const clock = new FakeClock(options.now ?? NOW);
  const backend = memory({ clock });
  const db = connect(backend);
  return { backend, clock, db, attempts: db.open(options.definition ?? Attempts) };
}

const tables = async (db: Database) => (await db.tables.listTables({})).names;

async function collect<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

describe("a rotation", () => {
  it("puts each row into the table of its time", async () => {
    const { db, attempts } = open();
    await attempts.insert(attempt(at("2014-07-31T23:59:59.999")));
    await attempts.insert(attempt(at("2014-08-01T00:00:00")));
    assert.deepEqual(await tables(db), ["LoginAttempts20140731", "LoginAttempts20140801"]);
    const { entities } = await db.tables.query("LoginAttempts20140801", {});
    assert.equal(entities[0]!.partitionKey, "ann");
    assert.match(entities[0]!.rowKey, /^0635\d{15}_1$/);
    assert.ok(await attempts.get({ user: "ann", at: at("2014-08-01T00:00:00"), id: "1" }));
  });

  it("reads an interval over its tables in time order", async () => {
    const millis = fc.array(fc.integer({ min: -50, max: 24 }), { maxLength: 25 });
    await fc.assert(
      fc.asyncProperty(
        millis,
        fc.integer({ min: -60, max: 30 }),
        fc.nat(60),
        async (hours, a, n) => {
          const { attempts } = open();
          const time = (hour: number) => new Date(NOW + hour * HOUR_MS);
          for (const [i, hour] of hours.entries())
            await attempts.insert(attempt(time(hour), `${i}`));
          const query = { user: "ann", from: time(a), to: time(a + n) };
          const found = await collect(attempts.range(query));
          assert.deepEqual(
            found.map((row) => row.at.getTime()),
            hours
              .filter((hour) => hour >= a && hour < a + n)
              .sort((x, y) => x - y)
              .map((hour) => time(hour).getTime()),
          );
        },
      ),
      histories(40),
    );
  });

  it("reads the newest first if the keys descend", async () => {
    const Latest = entity("Latest", {
      version: 1,
      fields,
      key: { partition: [k.str("user")], row: [k.dateDesc("at"), k.str("id")] },
    });
    const { db } = open();
    const latest = db.open(rotating(Latest, { at: "at", unit: "hour", keep: 24 }));
    const hours = [at("2014-07-31T16:10:00"), at("2014-07-31T17:00:00"), at("2014-07-31T17:30:00")];
    for (const time of hours) await latest.insert(attempt(time));
    const query = { user: "ann", from: hours[0]!, to: new Date(NOW) };
    assert.deepEqual(
      (await collect(latest.range(query))).map((row) => row.at),
      hours.reverse(),
    );
    assert.equal((await tables(db))[0], "Latest2014073116");
  });

  it("creates the right next table at the ends of months and years and on leap days", async () => {
    const names = async (unit: "year" | "month" | "day", now: string) => {
      const { db } = open({ now: at(now).getTime() });
      const rotation = db.open(rotating(Attempt, { at: "at", unit, keep: 1, ahead: 1 }));
      return (await rotation.rotate()).created;
    };
    assert.deepEqual(await names("day", "2024-02-28T12:00:00"), [
      "LoginAttempts20240228",
      "LoginAttempts20240229",
    ]);
    assert.deepEqual(await names("month", "2014-01-31T12:00:00"), [
      "LoginAttempts201401",
      "LoginAttempts201402",
    ]);
    assert.deepEqual(await names("year", "2015-12-31T23:59:59"), [
      "LoginAttempts2015",
      "LoginAttempts2016",
    ]);
  });

  it("drops expired tables after the grace period, in one request each, and no foreign table", async () => {
    const { clock, db, attempts } = open();
    const foreign = [
      "LoginAttempts2014",
      "LoginAttempts20141399",
      "LoginAttemptsX",
      "Other20100101",
    ];
    for (const name of [...foreign, "LoginAttempts20140728"]) await db.tables.createTable(name);
    await attempts.insert(attempt(at("2014-07-29T00:00:00")));
    assert.deepEqual(await attempts.rotate(), {
      created: ["LoginAttempts20140731", "LoginAttempts20140801"],
      dropped: ["LoginAttempts20140728"],
    });
    clock.advance(6 * HOUR_MS + HOUR_MS / 2);
    assert.deepEqual((await attempts.rotate()).dropped, []);
    clock.advance(HOUR_MS);
    const { requests, result } = await db.metered((metered) => metered.open(Attempts).rotate());
    assert.deepEqual(result.dropped, ["LoginAttempts20140729"]);
    assert.equal(requests, 2);
    for (const name of foreign) assert.ok((await tables(db)).includes(name));
    assert.equal(await attempts.dropPeriod(at("2014-07-31T00:00:00")), true);
    assert.equal(await attempts.dropPeriod(at("2014-07-31T00:00:00")), false);
  });

  it("creates no table for expired rows, and passes them to the late handler", async () => {
    const { db, attempts } = open();
    const old = attempt(at("2014-07-28T23:59:59.999"));
    await assert.rejects(attempts.insert(old), (error) => isTableError(error, "validation-failed"));
    const taken: unknown[] = [];
    const late = (row: unknown) => void taken.push(row);
    const asking = db.open(rotating(Attempt, { at: "at", unit: "day", keep: 2, late }));
    assert.equal(await asking.insert(old), undefined);
    assert.deepEqual(taken, [old]);
    assert.deepEqual(await tables(db), []);
  });

  it("with late: oldest, stores late rows in the oldest kept table, where readers find them until it is dropped", async () => {
    for (const segment of [k.date("at"), k.dateDesc("at")]) {
      const Kept = entity("Kept", {
        version: 1,
        fields,
        key: { partition: [k.str("user")], row: [segment, k.str("id")] },
      });
      const { clock, db } = open();
      const kept = db.open(rotating(Kept, { at: "at", unit: "day", keep: 2, late: "oldest" }));
      const times = [
        at("2014-07-28T12:00:00"), // will have expired before its table is dropped
        at("2014-07-29T12:00:00"),
        at("2014-07-30T12:00:00"),
        at("2014-07-31T12:00:00"),
      ];
      clock.advance(-24 * HOUR_MS);
      for (const [i, time] of times.entries()) await kept.insert(attempt(time, `${i}`));
      clock.advance(24 * HOUR_MS);
      const late = [
        attempt(at("2014-07-28T06:00:00"), "a"),
        attempt(at("2001-01-01T00:00:00"), "b"),
      ];
      for (const row of late) await kept.insert(row);
      assert.deepEqual(await tables(db), [
        "Kept20140728",
        "Kept20140729",
        "Kept20140730",
        "Kept20140731",
      ]);
      const { entities } = await db.tables.query("Kept20140729", {});
      assert.equal(entities.length, 3);

      const ids = async (from: Date, to: Date) =>
        (await collect(kept.range({ user: "ann", from, to }))).map(({ id }) => id).join("");
      const inOrder = (ids: string) =>
        segment.descending ? Array.from(ids).reverse().join("") : ids;
      assert.equal(await ids(new Date(0), new Date(NOW)), inOrder("ba0123"));
      assert.equal(await ids(late[0]!.at, times[1]!), inOrder("a0"));
      assert.equal(await ids(times[2]!, new Date(NOW)), inOrder("23"));
      // An interval that ends before the table does includes late rows.
      assert.equal(await ids(new Date(0), at("2014-07-28T00:00:00")), "b");
      for (const row of [...late, attempt(times[0]!, "0")]) {
        assert.equal((await kept.get(row))?.id, row.id);
        await assert.rejects(kept.insert(row), (error) => isTableError(error, "unique-violation"));
      }
      assert.equal(await kept.get(attempt(new Date(0))), undefined);

      clock.advance(26 * HOUR_MS);
      await kept.insert({ ...late[1]!, id: "c" });
      assert.equal((await kept.get(late[0]!))?.id, "a");
      await kept.rotate();
      assert.equal(await ids(new Date(0), new Date(NOW)), inOrder("c23"));
    }
  });

  it("waits while a table of the same name is being deleted, then gives up", async () => {
    for (const [refusals, ok] of [
      [4, true],
      [9, false],
    ] as const) {
      const { backend, clock } = open();
      let left: number = refusals;
      const faults = withFaults(({ method }) =>
        method === "createTable" && left-- > 0
          ? { kind: "refuse", status: 409, code: "TableBeingDeleted" }
          : undefined,
      );
      const db = connect({ ...backend, ...intercept(backend, faults) });
      const insert = db.open(Attempts).insert(attempt(new Date(NOW)));
      if (ok) await insert;
      else await assert.rejects(insert, (error) => error instanceof PortError);
      assert.equal(clock.now() - NOW, 75_000);
    }
  });

  const first = attempt(new Date(NOW));
  const insert = (db: Database) => db.open(Attempts).insert(first);
  const count = async (db: Database) => {
    const query = { user: "ann", from: new Date(0), to: new Date(NOW * 2) };
    return (await collect(db.open(Attempts).range(query))).length;
  };
  const backend = () => memory({ clock: new FakeClock(NOW) });

  it("costs one request for an insert, and three for the first into a table", async () => {
    const { db } = open();
    assert.equal((await db.metered(insert)).requests, 3);
    const second = (db: Database) => db.open(Attempts).insert({ ...first, id: "2" });
    assert.equal((await db.metered(second)).requests, 1);
    assert.equal((await db.metered(count)).requests, 2);

    const Kept = rotating(Attempt, { at: "at", unit: "day", keep: 1, late: "oldest" });
    for (const [day, id, requests] of [
      [30, "3", 3], // in the oldest table that is kept, which is created
      [30, "4", 1],
      [29, "5", 4], // late
      [29, "6", 4],
    ] as const) {
      const row = attempt(at(`2014-07-${day}T01:00:00`), id);
      const usage = await db.metered((metered) => metered.open(Kept).insert(row));
      assert.equal(usage.requests, requests, id);
    }
  });

  it("refuses times that are not valid dates", async () => {
    const attempts = connect(memory()).open(Attempts);
    const isRefused = (error: unknown) => isTableError(error, "validation-failed");
    for (const at of [undefined, "2026-01-01", new Date(Number.NaN)] as Date[]) {
      await assert.rejects(attempts.insert({ ...first, at }), isRefused);
      await assert.rejects(attempts.get({ ...first, at }), isRefused);
      await assert.rejects(attempts.dropPeriod(at), isRefused);
      await assert.rejects(async () => {
        for await (const _ of attempts.range({ user: "ann", from: at, to: at }))
          assert.fail("a row");
      }, isRefused);
    }
  });

  it("survives crashes, lost answers and concurrent rotations", async () => {
    const again = (db: Database) =>
      insert(db).catch((error) => assert.ok(isTableError(error, "unique-violation")));
    const check = async (db: Database) => assert.equal(await count(db), 1);
    await crashEverywhere(insert, { backend, recover: again, check });
    const recently = { ...first, at: new Date(Date.UTC(2026, 0, 1)) };
    await loseEveryAnswer((db) => db.open(Attempts).insert(recently), {
      before: async () => undefined,
      check,
    });

    const rotate = (db: Database) => db.open(Attempts).rotate();
    const old = async (db: Database) => {
      await db.tables.createTable("LoginAttempts20250701");
      await db.tables.createTable("LoginAttempts20251231");
    };
    const rotated = async (db: Database) =>
      assert.deepEqual(await tables(db), [
        "LoginAttempts20251231",
        "LoginAttempts20260101",
        "LoginAttempts20260102",
      ]);
    await crashEverywhere(rotate, { before: old, recover: rotate, check: rotated });
    const clients = { one: rotate, two: rotate };
    await interleave({ before: old, clients, check: rotated, runs: schedules(500) });
  });

  it("skips a table that was dropped meanwhile, but not one that it may not read", async () => {
    const { backend, attempts } = open();
    for (const day of [29, 30, 31]) await attempts.insert(attempt(at(`2014-07-${day}T00:00:00`)));
    const readWith = (status: number, code: string) => {
      const faults = withFaults(({ method, args }) =>
        (method === "query" || method === "get") && args[0] === "LoginAttempts20140730"
          ? { kind: "refuse", status, code }
          : undefined,
      );
      const reading = connect({ ...backend, ...intercept(backend, faults) }).open(Attempts);
      const query = { user: "ann", from: at("2014-07-29T00:00:00"), to: new Date(NOW) };
      const rows = () => collect(reading.range(query));
      const row = () => reading.get(attempt(at("2014-07-30T00:00:00")));
      return { rows, row };
    };
    const dropped = readWith(404, "TableNotFound");
    assert.deepEqual([(await dropped.rows()).length, await dropped.row()], [2, undefined]);
    const forbidden = readWith(403, "AuthorizationPermissionMismatch");
    for (const read of [forbidden.rows, forbidden.row]) await assert.rejects(read, PortError);
  });

  it("inserts a late row once, even if writers disagree on whether its period has ended", async () => {
    const Kept = rotating(Attempt, { at: "at", unit: "day", keep: 1, late: "oldest" });
    const row = attempt(new Date(Date.UTC(2025, 11, 31)));
    const insertLate = (db: Database) => db.open(Kept).insert(row);
    const rows = async (db: Database) => {
      const each = (await tables(db)).map((table) => db.tables.query(table, {}));
      return (await Promise.all(each)).flatMap(({ entities }) => entities).length;
    };
    // Midnight passes meanwhile, and the row's own table is no longer the oldest that is kept.
    const before = (db: Database) => db.clock.sleep(24 * HOUR_MS - 1000);
    let inserted = 0;
    const afterMs = (ms: number) => async (db: Database) => {
      await db.clock.sleep(ms);
      try {
        await insertLate(db);
        inserted++;
      } catch (error) {
        assert.ok(isTableError(error, "unique-violation"));
      }
    };
    await interleave({
      before: (db) => {
        inserted = 0;
        return before(db);
      },
      clients: { before: afterMs(0), after: afterMs(2000), later: afterMs(2000) },
      check: async (db) => assert.deepEqual([inserted, await rows(db)], [1, 1]),
      runs: schedules(500),
    });
    const again = (db: Database) =>
      insertLate(db).catch((error) => assert.ok(isTableError(error, "unique-violation")));
    const check = async (db: Database) => assert.equal(await rows(db), 1);
    await crashEverywhere(insertLate, { before, recover: again, check });
    await loseEveryAnswer(insertLate, { before, check });
  });

  it("refuses definitions that it cannot rotate", () => {
    const refused = (declare: () => unknown) =>
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    const byId = entity("ById", {
      version: 1,
      fields,
      key: { partition: [k.str("user")], row: [k.str("id"), k.date("at")] },
    });
    refused(() => rotating(byId, { at: "at", unit: "day", keep: 1 }));
    refused(() => rotating(Attempt, { at: "at", unit: "day", keep: 0 }));
    rotating(Attempt, { at: "at", unit: "hour", keep: 1000 });
    refused(() => rotating(Attempt, { at: "at", unit: "hour", keep: 1001 }));
    refused(() => rotating(Attempt.in("L".repeat(56)), { at: "at", unit: "day", keep: 1 }));
    rotating(Attempt.in("L".repeat(55)), { at: "at", unit: "day", keep: 1 });
    const indexed = entity("Indexed", {
      version: 1,
      fields,
      key: { partition: [k.str("user")], row: [k.date("at"), k.str("id")] },
      indexes: {
        id: remoteIndex({
          table: "AttemptById",
          partition: [k.str("id")],
          row: [k.str("user"), k.date("at")],
          mode: "inline",
        }),
      },
    });
    refused(() => rotating(indexed, { at: "at", unit: "day", keep: 1 }));
  });
});
