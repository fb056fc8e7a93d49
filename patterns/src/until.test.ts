import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, it } from "node:test";
import { isTableError } from "./errors.ts";
import { type ConnectOptions, connect, type DatabaseEvent, entity, f, k } from "./index.ts";
import { indexRepairs } from "./index-repairs.ts";
import { createWorker, type Handler, sendMessage } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { type Clock, unlessAborted } from "./store/clock.ts";
import { inSlots, Slots } from "./store/limit.ts";
import { FakeClock, intercept, memory, withFaults } from "./testing.ts";

const Employee = entity("Employee", {
  version: 1,
  fields: { id: f.int32(), email: f.string() },
  key: { partition: [k.lit("all")], row: [k.uint("id", 6)] },
});
const Found = entity("Employee", {
  version: 1,
  fields: { id: f.int32(), email: f.string() },
  key: { partition: [k.lit("all")], row: [k.uint("id", 6)] },
  indexes: {
    email: remoteIndex({
      table: "ByEmail",
      partition: [k.str("email")],
      row: [k.lit("owner")],
      unique: true,
    }),
  },
});
const gone = new Error("The caller went away.");
const isGone = (error: unknown) => error === gone;
const everything = async () => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Sleeps until the test advances it, so that the test can look at a wait. */
function patientClock(): FakeClock & Clock {
  const clock = new FakeClock();
  clock.sleep = (ms, signal) => clock.alarm(ms, signal);
  return clock;
}

function open(options: Partial<ConnectOptions> = {}) {
  const clock = patientClock();
  const backend = memory({ clock });
  const controller = new AbortController();
  const connected = connect({ ...backend, ...options });
  const abort = () => controller.abort(gone);
  return { clock, backend, db: connected, until: connected.until(controller.signal), abort };
}

/** Pushes back on every request but the first few. */
function pushBack(after = 0) {
  let sent = 0;
  const backend = memory({ clock: patientClock() });
  const layer = withFaults((_call, count) => {
    sent = count;
    return count > after ? { kind: "refuse", status: 503, code: "ServerBusy" } : undefined;
  });
  return { ports: { ...backend, ...intercept(backend, layer) }, sent: () => sent };
}

describe("a database until a signal", () => {
  it("ends a wait for a slot immediately, and gives the slot to the next in line", async () => {
    const slots = new Slots(1, new FakeClock());
    const controller = new AbortController();
    const ran: string[] = [];
    let finish = () => {};
    const first = inSlots([slots], () => new Promise<void>((resolve) => (finish = resolve)));
    const second = inSlots([slots], async () => ran.push("second"), controller.signal);
    const third = inSlots([slots], async () => ran.push("third"));
    controller.abort(gone);
    await assert.rejects(second, isGone);
    finish();
    await Promise.all([first, third]);
    assert.deepEqual(ran, ["third"]);
    await assert.rejects(
      inSlots([slots], async () => ran.push("late"), controller.signal),
      isGone,
    );
    assert.equal(await inSlots([slots], async () => "free"), "free");
  });

  it("shares the slots of its parent database", async () => {
    let most = 0;
    let under = 0;
    const backend = memory();
    const ports = intercept(backend, async (_call, send) => {
      most = Math.max(most, ++under);
      await new Promise((resolve) => setImmediate(resolve));
      under--;
      return send();
    });
    const db = connect({ ...backend, ...ports, limit: { account: 2 } });
    await db.createTables(Employee);
    const { signal } = new AbortController();
    const ids = Array.from({ length: 10 }, (_, id) => id);
    await Promise.all(ids.map((id) => db.until(signal).open(Employee).get({ id })));
    assert.equal(most, 2);
  });

  it("ends a wait before a retry immediately, and sends nothing again", async () => {
    const { ports, sent } = pushBack();
    const { until, abort } = open(ports);
    const read = until.open(Employee).get({ id: 1 });
    await everything();
    assert.equal(sent(), 1);
    abort();
    await assert.rejects(read, isGone);
    assert.equal(sent(), 1);
  });

  it("ends a wait after a lost race", async () => {
    const { db, backend } = open();
    await db.createTables(Employee);
    await db.open(Employee).insert({ id: 1, email: "a" });
    let tries = 0;
    const loseRaces = withFaults(({ method }) => {
      if (method !== "commit") return undefined;
      tries++;
      return { kind: "refuse", status: 412, code: "UpdateConditionNotSatisfied" };
    });
    const { until, abort } = open({ ...backend, ...intercept(backend, loseRaces) });
    const update = until.open(Employee).update({ id: 1 }, () => ({ email: "mine" }));
    await everything();
    abort();
    await assert.rejects(update, isGone);
    assert.deepEqual([tries, (await db.open(Employee).mustGet({ id: 1 })).email], [1, "a"]);
  });

  it("puts one listener on the signal, however many wait, and removes it after the last", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = () => getEventListeners(signal, "abort").length;
    const ends: (() => void)[] = [];
    const wait = () =>
      unlessAborted((done) => {
        ends.push(done);
        return () => {};
      }, signal);
    const answered = [wait(), wait()];
    const waits = Array.from({ length: 20 }, wait);
    assert.equal(listeners(), 1);
    for (const end of ends) end();
    await Promise.all([...answered, ...waits]);
    assert.equal(listeners(), 0);
    const first = wait();
    ends.at(-1)?.();
    await first;
    const ended = Array.from({ length: 20 }, wait);
    controller.abort(gone);
    for (const wait of ended) await assert.rejects(wait, isGone);
  });

  it("sends nothing after any of several signals", async () => {
    const { db, until, abort } = open();
    await db.createTables(Employee);
    const inner = until.until(new AbortController().signal);
    await inner.open(Employee).insert({ id: 1, email: "a" });
    abort();
    const usage = await db.metered(async (metered) => {
      const late = metered.until(AbortSignal.abort(gone)).open(Employee);
      await assert.rejects(late.get({ id: 1 }), isGone);
      await assert.rejects(inner.open(Employee).get({ id: 1 }), isGone);
      await assert.rejects(
        inner.metered((own) => own.open(Employee).get({ id: 1 })),
        isGone,
      );
    });
    assert.equal(usage.requests, 0);
    assert.equal((await db.open(Employee).get({ id: 1 }))?.email, "a");
  });

  it("leaves nothing that a worker does not repair, at whatever request a write ends", async () => {
    const run = async (endAt: number) => {
      const backend = memory();
      const controller = new AbortController();
      let requests = 0;
      const ports = intercept(backend, (_call, send) => {
        if (++requests === endAt) controller.abort(gone);
        return send();
      });
      const db = connect(backend);
      await db.createTables(Found);
      const worker = createWorker(db, {
        queue: "index-repairs",
        handlers: [indexRepairs([Found])],
      });
      await worker.createQueues();
      await db.open(Found).insert({ id: 1, email: "old" });
      backend.clock.advance(120_000);
      const bounded = connect({ ...backend, ...ports }).until(controller.signal);
      const outcome = await bounded
        .open(Found)
        .update({ id: 1 }, () => ({ email: "new" }))
        .then(
          () => "done",
          (error) => (isGone(error) ? "ended" : assert.fail(String(error))),
        );
      for (let round = 0; round < 3; round++) {
        backend.clock.advance(120_000);
        await worker.drain();
      }
      const { email } = await db.open(Found).mustGet({ id: 1 });
      const { entities } = await backend.tables.query("ByEmail", {});
      const entries = entities.map(
        ({ partitionKey, properties }) =>
          `${partitionKey}${"rh_s" in properties ? " pending" : ""}`,
      );
      assert.deepEqual(entries, [email], `ended at request ${endAt}`);
      return { requests, outcome, email };
    };
    const whole = await run(0);
    assert.deepEqual([whole.outcome, whole.email], ["done", "new"]);
    const outcomes = [];
    for (let endAt = 1; endAt <= whole.requests; endAt++) outcomes.push(await run(endAt));
    assert.deepEqual(new Set(outcomes.map(({ email }) => email)), new Set(["old", "new"]));
    assert.ok(outcomes.some(({ outcome }) => outcome === "ended"));
  });
});

describe("a queue worker and its signal", () => {
  it("stops immediately even if the queue pushes back", async () => {
    const { ports, sent } = pushBack(2); // The queues are created.
    const events: DatabaseEvent[] = [];
    const { db } = open({ ...ports, onEvent: (event) => events.push(event) });
    const controller = new AbortController();
    const run = createWorker(db, { queue: "work", handlers: [] }).run(controller);
    await everything();
    assert.equal(sent(), 3);
    controller.abort();
    await run;
    assert.deepEqual([sent(), events], [3, []]);
  });

  it("refuses the writes of a handler that lost its message", async () => {
    const backend = memory();
    const db = connect(backend);
    await db.createTables(Employee);
    let outcome: unknown;
    const handler: Handler = {
      kind: "slow",
      async handle(_message, { database }) {
        const insert = () => database.open(Employee).insert({ id: 1, email: "late" });
        // A stall: the renewal comes too late.
        backend.clock.advance(61_000);
        await backend.queues.receive("work", { max: 1, visibilityMs: 600_000 });
        await everything();
        outcome = await insert().catch((error) => error);
      },
    };
    const worker = createWorker(db, { queue: "work", handlers: [handler] });
    await worker.createQueues();
    await sendMessage(db, "work", { kind: "slow", key: "k", body: null });
    await worker.drain();
    assert.ok(isTableError(outcome, "conflict"), String(outcome));
    assert.equal(await db.open(Employee).get({ id: 1 }), undefined);
  });

  it("drains no further than the signal", async () => {
    const controller = new AbortController();
    const { db } = open();
    let count = 0;
    const handle = async () => {
      if (++count === 2) controller.abort();
    };
    const handlers = [{ kind: "note", handle }];
    const worker = createWorker(db, { queue: "work", handlers, concurrency: 1 });
    await worker.createQueues();
    for (const key of ["a", "b", "c"]) {
      await sendMessage(db, "work", { kind: "note", key, body: null });
    }
    assert.equal(await worker.drain(controller), 2);
  });
});
