import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inbox } from "./inbox.ts";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { outbox, outboxReplay } from "./outbox.ts";
import { isRefusal, PortError } from "./ports/port-error.ts";
import { createWorker, type Message } from "./queue-worker.ts";
import { schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import {
  crashEverywhere,
  FakeClock,
  type InterleaveOptions,
  intercept,
  interleave,
  type Layer,
  memory,
} from "./testing.ts";

const Order = entity("Order", {
  version: 1,
  fields: { shop: f.string(), id: f.int32(), total: f.int32() },
  key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
  followers: {
    events: outbox({
      queue: "events",
      message: ({ key, before, after }) =>
        before?.row.total === after?.total
          ? undefined
          : { kind: "order-changed", key: key.rowKey, body: { total: after?.total ?? 0 } },
    }),
  },
});
const order = { shop: "s", id: 1, total: 10 };

async function prepare(db: Database) {
  await db.createTables(Order);
  await Promise.all(["events", "events-poison"].map((queue) => db.queues?.createQueue(queue)));
}

describe("an outbox", () => {
  it("sends a message for each change, and leaves no row behind", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const { requests } = await db.metered((metered) => metered.open(Order).insert(order));
    // Tripwire, commit, message, row deleted, tripwire deleted.
    assert.equal(requests, 5);
    await db.open(Order).update({ shop: "s", id: 1 }, () => ({ total: 11 }));
    await db.open(Order).update({ shop: "s", id: 1 }, () => ({ total: 11 }));
    await db.open(Order).delete({ shop: "s", id: 1 });
    const sent = backend.queues.contents("events").map(({ text }) => JSON.parse(text));
    assert.deepEqual(
      sent.map(({ kind, key, body }) => [kind, key, body.total]),
      [10, 11, 0].map((total) => ["order-changed", "order_000001", total]),
    );
    assert.deepEqual((await backend.tables.query("Order", {})).entities, []);
  });

  it("sends the message if and only if the change was committed, whenever the writer crashes", async () => {
    const seen = new Set<number>();
    const worker = (db: Database) => {
      const handle = async ({ body }: { body: unknown }) =>
        seen.add((body as { total: number }).total);
      const handlers = [outboxReplay(), { kind: "order-changed", handle }];
      return createWorker(db, { queue: "events", handlers });
    };
    await crashEverywhere((db) => db.open(Order).insert(order), {
      before: async (db) => {
        seen.clear();
        await prepare(db);
      },
      recover: async (db) => {
        for (let round = 0; round < 3; round++) {
          await worker(db).drain();
          await db.clock.sleep(100_000);
        }
      },
      check: async (db, { tables, queues }) => {
        const found = await db.open(Order).get({ shop: "s", id: 1 });
        assert.deepEqual([...seen], found ? [10] : []);
        const rows = (await tables.query("Order", {})).entities;
        assert.equal(rows.length, found ? 1 : 0);
        assert.deepEqual(queues.contents("events"), []);
      },
    });
  });

  it("sends the message and leaves nothing behind, whichever answer is lost", async () => {
    const lost = await loseEveryAnswer((db) => db.open(Order).insert(order), {
      before: prepare,
      check: async (db, { tables, queues }) => {
        const totals: unknown[] = [];
        const handle = async ({ body }: { body: unknown }) => totals.push(body);
        const handlers = [outboxReplay(), { kind: "order-changed", handle }];
        for (let round = 0; round < 3; round++) {
          await createWorker(db, { queue: "events", handlers }).drain();
          await db.clock.sleep(100_000);
        }
        // A message whose answer was lost is sent again, so it may arrive twice.
        assert.ok(totals.length >= 1 && totals.length <= 2);
        assert.deepEqual(totals[0], { total: 10 });
        assert.equal((await tables.query("Order", {})).entities.length, 1);
        assert.deepEqual(queues.contents("events"), []);
      },
    });
    assert.equal(lost, 5);
  });

  /** A writer that may be suspended for longer than its tripwire, and may crash, next to a worker. */
  async function slowWriters(options: Pick<InterleaveOptions, "runs" | "seed" | "layer">) {
    const seen = new Set<number>();
    const worker = (db: Database) => {
      const handle = async ({ body }: { body: unknown }) =>
        seen.add((body as { total: number }).total);
      const handlers = [outboxReplay(), { kind: "order-changed", handle }];
      return createWorker(db, { queue: "events", handlers, concurrency: 1 });
    };
    const write = async (db: Database) => {
      // A writer that is too slow gives up instead of committing after its tripwire.
      const written = db.open(Order).upsert({ ...order, total: 11 });
      await written.catch((error) => assert.ok(isTableError(error, "throttled"), error));
    };
    await interleave({
      clients: { writer: write, worker: (db) => worker(db).drain() },
      before: async (db) => {
        seen.clear();
        await prepare(db);
      },
      recover: async (db) => {
        for (let round = 0; round < 4; round++) {
          await db.clock.sleep(100_000);
          await worker(db).drain();
        }
      },
      check: async (db, { tables, queues }) => {
        const found = await db.open(Order).get({ shop: "s", id: 1 });
        if (found) assert.ok(seen.has(found.total), `nobody heard of ${found.total}`);
        assert.equal((await tables.query("Order", {})).entities.length, found ? 1 : 0);
        assert.deepEqual(queues.contents("events"), []);
      },
      crashShare: 0.1,
      pausesMs: [91_000],
      ...options,
    });
  }

  it("sends the message of every commit, however slow its writer is before it crashes", async () => {
    await slowWriters({ runs: schedules(1200) });
  });

  it("would lose messages if commits had no deadline (the check notices)", async () => {
    const layer: InterleaveOptions["layer"] = (_client, { tables }) => {
      return ({ method, args }, send) => {
        if (method !== "commit") return send();
        const [table, mutations] = args as Parameters<typeof tables.commit>;
        return tables.commit(table, mutations);
      };
    };
    // To save time, this starts near the first failing seed counted from 1; later ones fail as well.
    await assert.rejects(slowWriters({ runs: 20_000, seed: 4450, layer }), /Fails with/);
  });

  it("sends a message again with its original time, so that an inbox recognizes it the next day", async () => {
    const clock = new FakeClock(Date.UTC(2026, 0, 1, 23, 59));
    const backend = memory({ clock });
    const stuck: Layer = ({ args }, send) =>
      JSON.stringify(args).includes('"kind":"delete"')
        ? Promise.reject(new PortError("refused", { status: 403, code: "AuthorizationFailure" }))
        : send();
    const db = connect(backend);
    await prepare(db);
    await connect({ ...backend, ...intercept(backend, stuck) })
      .open(Order)
      .insert(order);
    backend.clock.advance(100_000);
    const seen = inbox("Seen");
    let effects = 0;
    const handle = (message: Message) => db.open(seen).once(message, async () => ++effects);
    const handlers = [outboxReplay(), { kind: "order-changed", handle }];
    await createWorker(db, { queue: "events", handlers }).drain();
    assert.deepEqual([effects, backend.queues.contents("events").length], [1, 0]);
  });

  it("sends to the other queues if one refuses, reports that, and sends the rest once it accepts", async () => {
    const declared = (queue: string, order: number) =>
      outbox({
        queue,
        message: ({ key }) => ({ kind: "told", id: `${order}${key.rowKey}`, key: queue, body: 0 }),
      });
    const Both = entity("Order", {
      version: 1,
      fields: { shop: f.string(), id: f.int32() },
      key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
      followers: { gone: declared("gone", 1), events: declared("events", 2) },
    });
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    await backend.queues.createQueue("gone");
    const refusing = (isRefused: (queue: unknown, text: string) => boolean) =>
      connect({
        ...backend,
        ...intercept(backend, async ({ method, args: [queue, text] }, send) => {
          if (method !== "send" || !isRefused(queue, String(text))) return send();
          throw new PortError("no such queue", { status: 404, code: "QueueNotFound" });
        }),
      });
    // Their writers send nothing but their tripwires.
    const dying = refusing((_queue, text) => text.includes('"told"'));
    for (const id of [1, 2]) await dying.open(Both).insert({ shop: "s", id });
    backend.clock.advance(100_000);

    let isGone = true;
    const seen: string[] = [];
    const failures: unknown[] = [];
    const worker = createWorker(
      refusing((queue) => isGone && queue === "gone"),
      {
        queue: "events",
        handlers: [outboxReplay(), { kind: "told", handle: async ({ id }) => seen.push(id) }],
        concurrency: 1,
        onFailure: (_message, error) => failures.push(error),
      },
    );
    const rows = async () =>
      (await backend.tables.query("Order", {})).entities.map(({ rowKey }) => rowKey);
    await worker.drain();
    assert.deepEqual(seen, ["2order_000001", "2order_000002"]);
    assert.ok(failures.length > 0 && failures.every((error) => isRefusal(error, 404)));
    const letters = (await rows()).slice(2);
    assert.ok(letters.length === 2 && letters.every((rowKey) => rowKey.startsWith("outbox_")));
    isGone = false;
    backend.clock.advance(10_000);
    await worker.drain();
    assert.deepEqual(await rows(), ["order_000001", "order_000002"]);
    assert.equal(seen.length, 2);
  });

  it("restarts a write whose tripwire fired before its commit, with a new tripwire", async () => {
    const backend = memory();
    const plain = connect(backend);
    await prepare(plain);
    const message = ({ key }: { readonly key: { readonly rowKey: string } }) =>
      ({ kind: "told", key: key.rowKey, body: null }) as const;
    const Quick = entity("Order", {
      version: 1,
      fields: { shop: f.string(), id: f.int32() },
      key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
      followers: { events: outbox({ queue: "events", message, tripwireMs: 5000 }) },
    });
    const seen: string[] = [];
    const told = { kind: "told", handle: async ({ id }: Message) => seen.push(id) };
    const worker = createWorker(plain, { queue: "events", handlers: [outboxReplay(), told] });
    let tripwires = 0;
    const dying: Layer = async ({ port, method, args }, send) => {
      const isTripwire = String(args[1]).includes('"kind":"outbox"');
      if (port === "queues" && !isTripwire) throw new PortError("died", { status: 404, code: "" });
      const answer = await send();
      if (method !== "send" || ++tripwires > 1) return answer;
      // The writer is suspended until its tripwire has fired, found nothing and been deleted.
      backend.clock.advance(6000);
      await worker.drain();
      return answer;
    };
    const writer = connect({ ...backend, ...intercept(backend, dying) });
    await writer.open(Quick).insert({ shop: "s", id: 1 });
    backend.clock.advance(6000);
    await worker.drain();
    assert.deepEqual([tripwires, seen.length], [2, 1]);
  });

  it("replays the messages left in one partition, and none of another's", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const isRefused = (text: unknown) => !String(text).includes('"kind":"outbox"');
    const dying = intercept(backend, async ({ method, args: [, text] }, send) => {
      if (method !== "send" || !isRefused(text)) return send();
      throw new PortError("no such queue", { status: 404, code: "QueueNotFound" });
    });
    await connect({ ...backend, ...dying })
      .open(Order)
      .insert(order);
    backend.clock.advance(100_000);
    await connect({ ...backend, ...dying })
      .open(Order)
      .insert({ ...order, shop: "t" });
    const seen: string[] = [];
    const told = { kind: "order-changed", handle: async ({ id }: Message) => seen.push(id) };
    const worker = createWorker(db, { queue: "events", handlers: [outboxReplay(), told] });
    await worker.drain();
    assert.equal(seen.length, 1);
    const left = (await backend.tables.query("Order", {})).entities;
    const letters = left.filter(({ rowKey }) => rowKey.startsWith("outbox"));
    assert.deepEqual(
      letters.map(({ partitionKey }) => partitionKey),
      ["t"],
    );
  });

  it("replays the messages that writers left, and leaves foreign rows among them alone", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const dying = connect({
      ...backend,
      ...intercept(backend, async ({ method, args: [, text] }, send) => {
        if (method !== "send" || String(text).includes('"kind":"outbox"')) return send();
        throw new PortError("no such queue", { status: 404, code: "QueueNotFound" });
      }),
    });
    await dying.open(Order).insert(order);
    const foreign = { partitionKey: "s", rowKey: "outbox_" } as const;
    await backend.tables.commit("Order", [{ kind: "insert", ...foreign, properties: {} }]);
    backend.clock.advance(100_000);
    const seen: string[] = [];
    const told = {
      kind: "order-changed",
      handle: async ({ key }: { key: string }) => seen.push(key),
    };
    await createWorker(db, { queue: "events", handlers: [outboxReplay(), told] }).drain();
    assert.deepEqual(seen, ["order_000001"]);
    assert.ok(await backend.tables.get("Order", foreign));
  });

  it("refuses a change whose message is too large, and accepts any id", async () => {
    const declare = (body: string) =>
      entity("Order", {
        version: 1,
        fields: { shop: f.string(), id: f.int32() },
        key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
        followers: {
          events: outbox({
            queue: "events",
            message: () => ({ kind: "told", id: "a/b", key: "", body }),
          }),
        },
      });
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    // More bytes than a queue accepts, more characters than a property holds.
    for (const body of ["語".repeat(17_000), "x".repeat(33_000)]) {
      await assert.rejects(db.open(declare(body)).insert({ shop: "s", id: 1 }), {
        code: "validation-failed",
      });
    }
    assert.deepEqual((await backend.tables.query("Order", {})).entities, []);
    assert.deepEqual(backend.queues.contents("events"), []);
    await db.open(declare("語")).insert({ shop: "s", id: 1 });
    assert.equal(JSON.parse(backend.queues.contents("events")[0]!.text).id, "a/b");
  });

  it("sends the message of each change even if they share an id and the first writer is slow to delete its row", async () => {
    const Note = entity("Order", {
      version: 1,
      fields: { shop: f.string(), id: f.int32() },
      key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
      followers: {
        events: outbox({
          queue: "events",
          message: ({ key }) => ({ kind: "told", id: "same", key: key.rowKey, body: null }),
        }),
      },
    });
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const seen: string[] = [];
    const told = { kind: "told", handle: async ({ key }: Message) => seen.push(key) };
    const worker = createWorker(db, { queue: "events", handlers: [outboxReplay(), told] });
    const mute: Layer = async ({ method, args: [, text] }, send) => {
      if (method !== "send" || String(text).includes('"kind":"outbox"')) return send();
      throw new PortError("no such queue", { status: 404, code: "QueueNotFound" });
    };
    const dying = connect({ ...backend, ...intercept(backend, mute) });
    let commits = 0;
    const slow: Layer = async ({ method }, send) => {
      // Its second commit deletes the row of the message that it sent.
      if (method === "commit" && ++commits === 2) {
        backend.clock.advance(100_000);
        await worker.drain();
        await dying.open(Note).insert({ shop: "s", id: 2 });
        await dying.open(Note).insert({ shop: "s", id: 3 });
      }
      return send();
    };
    await connect({ ...backend, ...intercept(backend, slow) })
      .open(Note)
      .insert({ shop: "s", id: 1 });
    backend.clock.advance(100_000);
    await worker.drain();
    assert.deepEqual([...new Set(seen)], ["order_000001", "order_000002", "order_000003"]);
  });

  it("is refused for keys it could collide with, and for a tripwire below 5 s", () => {
    const declare = (literal: string, tripwireMs: number) =>
      entity("Order", {
        version: 1,
        fields: { shop: f.string(), id: f.int32() },
        key: { partition: [k.str("shop")], row: [k.lit(literal), k.uint("id", 6)] },
        followers: { events: outbox({ queue: "events", message: () => undefined, tripwireMs }) },
      });
    declare("order", 5000);
    const isRefused = (error: unknown) => isTableError(error, "invalid-definition");
    assert.throws(() => declare("outbox", 5000), isRefused);
    assert.throws(() => declare("order", 4999), isRefused);
  });
});
