import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, f, isTableError, k } from "./index.ts";
import { bucketOf } from "./keys/hash.ts";
import { isRefusal } from "./ports/port-error.ts";
import { spread } from "./spread.ts";
import { systemClock } from "./store/clock.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const AccessLog = spread("AccessLog", {
  fields: { site: f.string(), at: f.date(), path: f.string() },
  stream: [k.str("site")],
  at: "at",
  buckets: 4,
});
const START = Date.UTC(2026, 0, 1);
const time = (ms: number) => new Date(START + ms);
const hit = (ms: number, entryId: string) => ({ site: "web", at: time(ms), path: "/", entryId });
const always = { site: "web", from: new Date(0), to: time(1e9) };

async function collect<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

async function open(options: Parameters<typeof memory>[0] = {}) {
  const backend = memory(options);
  const db = connect(backend);
  await db.createTables(AccessLog);
  return { backend, db, log: db.open(AccessLog) };
}

const partitions = async (db: Database) =>
  new Set((await db.tables.query("AccessLog", {})).entities.map((row) => row.partitionKey));

describe("a spread", () => {
  it("puts the bucket before the stream and the time before the id", async () => {
    const { db, log } = await open();
    await log.append({ ...hit(0, "foobar"), at: new Date("2014-07-31T18:00:00Z") });
    const { entities } = await db.tables.query("AccessLog", {});
    const [{ partitionKey, rowKey, properties }] = entities as [(typeof entities)[0]];
    assert.equal(partitionKey, `${bucketOf("foobar", 4)}_web`);
    assert.equal(rowKey, "0635424264000000000_foobar");
    const { rh_w: _, ...rest } = properties;
    assert.deepEqual(rest, {
      path: { type: "String", value: "/" },
      rh_t: { type: "String", value: "AccessLog:1" },
    });
  });

  it("generates an id for an entry whose id is undefined", async () => {
    const { log } = await open();
    const { entryId: _entryId, ...entry } = hit(1, "a");
    const [one, other] = [
      await log.append(entry),
      await log.append({ ...hit(1, "a"), entryId: undefined as never }),
    ];
    assert.match(other.entryId, /^[0-9A-Z]{26}$/);
    assert.notEqual(one.entryId, other.entryId);
  });

  it("merges the buckets by time, then id", async () => {
    const entries = fc.uniqueArray(fc.tuple(fc.nat(30), fc.stringMatching(/^[0-9a-f]{1,4}$/)), {
      maxLength: 40,
      selector: ([ms, id]) => `${ms} ${id}`,
    });
    await fc.assert(
      fc.asyncProperty(
        entries,
        fc.integer({ min: 1, max: 3 }),
        fc.nat(30),
        async (hits, pageEntitiesMax, from) => {
          const { log } = await open({ pageEntitiesMax });
          await Promise.all(hits.map(([ms, id]) => log.append(hit(ms, id))));
          const expected = hits
            .filter(([ms]) => ms >= from && ms < 25)
            .sort(([a, x], [b, y]) => a - b || (x < y ? -1 : 1))
            .map(([, id]) => id);
          const query = { site: "web", from: time(from), to: time(25) };
          const ordered = (await collect(log.rangeInOrder(query))).map(({ entryId }) => entryId);
          assert.deepEqual(ordered, expected);
          const unordered = (await collect(log.rangeUnordered(query))).map(
            ({ entryId }) => entryId,
          );
          assert.deepEqual(unordered.sort(), expected.sort());
        },
      ),
      histories(40),
    );
  });

  it("merges the buckets of an endpoint that promises no order", async () => {
    const { log } = await open({ profile: "cosmos" });
    for (const n of [5, 3, 9, 1]) await log.append(hit(n, `id${n}`));
    assert.deepEqual(
      (await collect(log.rangeInOrder(always))).map(({ entryId }) => entryId),
      ["id1", "id3", "id5", "id9"],
    );
  });

  it("stores entries evenly in its buckets, under the ids that it generates", async () => {
    const { backend, log } = await open();
    const { entryId: _entryId, ...entry } = hit(0, "");
    for (let i = 0; i < 400; i++) {
      backend.clock.advance(1);
      await log.append(entry);
    }
    const { entities } = await backend.tables.query("AccessLog", {});
    for (const bucket of ["0_web", "1_web", "2_web", "3_web"]) {
      const { length } = entities.filter(({ partitionKey }) => partitionKey === bucket);
      assert.ok(Math.abs(length - 100) < 30, `${bucket}: ${length}`);
    }
  });

  it("fails if a bucket fails, or reports it and continues", async () => {
    const { backend, log } = await open();
    for (let n = 0; n < 20; n++) await log.append(hit(n, `id${n}`));
    const faults = withFaults(({ method, args }) =>
      method === "query" && JSON.stringify(args).includes("2_web")
        ? { kind: "refuse", status: 403, code: "AuthorizationFailure" }
        : undefined,
    );
    const broken = connect({ ...backend, ...intercept(backend, faults) }).open(AccessLog);
    await assert.rejects(collect(broken.rangeInOrder(always)), /403/);
    await assert.rejects(collect(broken.rangeUnordered(always)), /403/);
    const failed: string[] = [];
    const rest = await collect(
      broken.rangeUnordered(always, (partition) => failed.push(partition)),
    );
    assert.deepEqual(failed, ["2_web"]);
    const others = Array.from({ length: 20 }, (_, n) => bucketOf(`id${n}`, 4)).filter(
      (b) => b !== "2",
    );
    assert.equal(rest.length, others.length);
  });

  it("grows while it is used, and finds entries before, across and after the change", async () => {
    const { backend, db, log } = await open();
    for (let n = 0; n < 30; n++) await log.append(hit(n, `old${n}`));
    assert.equal(await log.grow({ site: "web" }), 8);
    await assert.rejects(log.grow({ site: "web" }), (error) =>
      isTableError(error, "validation-failed"),
    );
    backend.clock.advance(150_000);
    const late = db.open(AccessLog);
    for (let n = 0; n < 30; n++) await late.append(hit(150_000 + n, `new${n}`));
    await late.append(hit(30, "late"));
    const ids = (await collect(log.rangeInOrder(always))).map(({ entryId }) => entryId);
    assert.deepEqual(ids, [
      ...Array.from({ length: 30 }, (_, n) => `old${n}`),
      "late",
      ...Array.from({ length: 30 }, (_, n) => `new${n}`),
    ]);
    assert.ok(await late.get(hit(30, "late")));
    assert.ok(await late.get(hit(150_000, "new0")));
    const after = { site: "web", from: time(140_000), to: time(200_000) };
    const { requests, result } = await db.metered((db) =>
      collect(db.open(AccessLog).rangeInOrder(after)),
    );
    assert.deepEqual([requests, result.length], [9, 30]);
    assert.equal(await late.grow({ site: "web" }), 16);
  });

  it("grows without losing entries of writers with fast clocks and the old setting", async () => {
    const { backend, log } = await open();
    const { clock } = backend;
    const ahead = { ...backend, clock: { ...systemClock, now: () => clock.now() + 25_000 } };
    const writer = connect(ahead).open(AccessLog);
    await writer.append(hit(0, "first"));
    const { result } = await connect({
      ...backend,
      // Writing the setting takes a while.
      ...intercept(backend, async ({ method }, send) => {
        if (method === "commit") clock.advance(4000);
        return send();
      }),
    }).metered((slow) => slow.open(AccessLog).grow({ site: "web" }));
    assert.equal(result, 8);
    clock.advance(55_999);
    const ids = Array.from({ length: 20 }, (_, n) => `late${n}`);
    const isTaken = (ms: number) =>
      writer.append(hit(ms, "probe")).then(
        () => true,
        () => false,
      );
    let latest = 59_999 + 25_000 + 90_000;
    while (!(await isTaken(latest))) latest -= 5000;
    for (const id of ids) await writer.append(hit(latest, id));
    for (const id of ids) assert.ok(await log.get(hit(latest, id)));
    const after = { site: "web", from: time(latest), to: time(latest + 1) };
    assert.equal((await collect(log.rangeInOrder(after))).length, 21);
  });

  it("does not grow if its setting is written too late for all writers to notice", async () => {
    const { backend, db, log } = await open();
    const busy = withFaults(({ method }, count) =>
      method === "commit" && count < 4
        ? { kind: "refuse", status: 503, code: "ServerBusy" }
        : undefined,
    );
    const slow = connect({ ...backend, ...intercept(backend, busy) }).open(AccessLog);
    await assert.rejects(slow.grow({ site: "web" }), (error) => isTableError(error, "throttled"));
    backend.clock.advance(150_000);
    await log.append(hit(140_000, "a"));
    assert.ok((await partitions(db)).has(`${bucketOf("a", 4)}_web`));
  });

  it("reads its setting again after the clock was set back", async () => {
    const { backend, db, log } = await open();
    let backMs = 0;
    const clock = { ...systemClock, now: () => backend.clock.now() - backMs };
    const reader = connect({ ...backend, clock }).open(AccessLog);
    assert.equal(await reader.get(hit(0, "none")), undefined);
    await log.grow({ site: "web" });
    backend.clock.advance(200_000);
    const ids = Array.from({ length: 20 }, (_, n) => `id${n}`);
    for (const id of ids) await db.open(AccessLog).append(hit(150_000, id));
    backMs = 200_010;
    for (const id of ids) assert.ok(await reader.get(hit(150_000, id)), id);
  });

  it("refuses to grow if the key of its setting would be too long", async () => {
    const { log } = await open();
    const site = "x".repeat(505);
    const isTooLong = (error: unknown) =>
      isTableError(error, "key-too-long") && error.length === 513;
    await assert.rejects(log.grow({ site }), isTooLong);
    assert.equal((await log.append({ ...hit(1, "a"), site })).entryId, "a");
  });

  it("grows for one caller at a time", async () => {
    const { log } = await open();
    const both = await Promise.allSettled([1, 2].map(() => log.grow({ site: "web" })));
    const [lost, ...others] = both.flatMap((one) =>
      one.status === "rejected" ? [one.reason] : [],
    );
    assert.equal(others.length, 0);
    assert.ok(isTableError(lost, "conflict"));
    assert.ok(isRefusal(lost.cause, 409));
  });

  it("costs one request for each append and get, and one for each bucket read", async () => {
    const { db } = await open();
    const { requests } = await db.metered(async (metered) => {
      const log = metered.open(AccessLog);
      await log.append(hit(1, "a"));
      await log.append(hit(2, "b"));
      await log.get(hit(1, "a"));
      await collect(log.rangeInOrder(always));
    });
    assert.equal(requests, 1 + 3 + 4);
  });

  it("refuses times ahead of the clock, duplicate keys and invalid numbers of buckets", async () => {
    const { log } = await open();
    await log.append(hit(30_000, "a"));
    await assert.rejects(log.append(hit(30_001, "b")), (error) =>
      isTableError(error, "validation-failed"),
    );
    await assert.rejects(log.append(hit(30_000, "a")), (error) =>
      isTableError(error, "unique-violation"),
    );
    for (const buckets of [0, 1.5, 257]) {
      const declare = () =>
        spread("X", {
          fields: { site: f.string(), at: f.date() },
          stream: [k.str("site")],
          at: "at",
          buckets,
        });
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    }
  });

  const before = async (db: Database) => {
    await db.createTables(AccessLog);
    await db.open(AccessLog).append(hit(0, "first"));
  };

  it("survives crashes and lost answers while appending and growing", async () => {
    const append = (db: Database) => db.open(AccessLog).append(hit(1, "second"));
    const check = async (db: Database) =>
      assert.equal((await collect(db.open(AccessLog).rangeInOrder(always))).length, 2);
    const again = (db: Database) =>
      append(db).catch((error) => assert.ok(isTableError(error, "unique-violation")));
    await crashEverywhere(append, { before, recover: again, check });
    await loseEveryAnswer(append, { before, check });

    const grow = (db: Database) => db.open(AccessLog).grow({ site: "web" });
    const readable = async (db: Database) => {
      assert.ok(await db.open(AccessLog).get(hit(0, "first")));
      assert.deepEqual(
        await partitions(db),
        new Set([`${bucketOf("first", 4)}_web`, "buckets_web"]),
      );
    };
    await crashEverywhere(grow, {
      before,
      recover: (db) => grow(db).catch(() => undefined),
      check: readable,
    });
    await loseEveryAnswer(grow, { before, check: readable });
  });

  it("refuses a table of its own, which plain JavaScript could pass", () => {
    const options = {
      fields: { site: f.string(), at: f.date() },
      stream: [k.str("site")],
      at: "at",
      buckets: 4,
      table: "Other",
    } as const;
    assert.throws(() => spread("Accesses", options), { code: "invalid-definition" });
  });
});
