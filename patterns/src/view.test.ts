import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { batch } from "./batch.ts";
import { connect, type Database, entity, f, type Infer, isTableError, k } from "./index.ts";
import type { BuildProgress } from "./index-states.ts";
import { outboxReplay } from "./outbox.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { Mutation } from "./ports/tables.ts";
import { createWorker } from "./queue-worker.ts";
import type { Layer, PortCall } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { view, viewUpdates } from "./view.ts";
import { rebuildView } from "./view-rebuild.ts";

const fields = {
  shop: f.string(),
  id: f.int32(),
  day: f.string(),
  total: f.int32(),
  note: f.string().optional(),
};
const Sales = view("SalesByDay", {
  fields: { day: f.string(), shop: f.string(), id: f.int32(), total: f.int32() },
  key: { partition: [k.str("day")], row: [k.str("shop"), k.uint("id", 6)] },
  // Unpaid orders are not in the view.
  project: ({ day, shop, id, total }: Infer<typeof fields>) =>
    total > 0 ? { day, shop, id, total } : undefined,
  queue: "views",
});
const declaration = {
  version: 1,
  fields,
  key: { partition: [k.str("shop")], row: [k.lit("order"), k.uint("id", 6)] },
} as const;
const Order = entity("Order", { ...declaration, followers: { sales: Sales } });
/** Written without telling the view. */
const Plain = entity("Order", declaration);
const order = (id: number, day: string, total: number) => ({ shop: "north", id, day, total });

const workerOf = (db: Database) =>
  createWorker(db, {
    queue: "views",
    handlers: [outboxReplay(), viewUpdates([Order])],
    // A schedule may stall every delivery past its lease, so no message counts as poison here.
    maxDequeue: 1000,
  });

async function prepare(db: Database) {
  await db.createTables(Order);
  await workerOf(db).createQueues();
}

/** Works until nothing is left to do, tripwires included. */
async function letWorkersFinish(db: Database) {
  for (let round = 0; round < 4; round++) {
    await workerOf(db).drain();
    await db.clock.sleep(100_000);
  }
}

async function open() {
  const backend = memory();
  const db = connect(backend);
  await prepare(db);
  return { backend, db, orders: db.open(Order), sales: db.open(Sales) };
}

async function shown(db: Database) {
  const rows = await (await db.open(Sales).current())
    .scan()
    .all({ allow: "table-scan", because: "the whole view is compared" });
  return rows.map(({ day, id, total }) => `${day} ${id}: ${total}`).sort();
}

/** The view equals the projection of all sources. */
async function check(db: Database) {
  const orders = await db.open(Order).range({ shop: "north" }).all();
  const expected = orders.filter(({ total }) => total > 0);
  assert.deepEqual(
    await shown(db),
    expected.map(({ day, id, total }) => `${day} ${id}: ${total}`).sort(),
  );
}

describe("a view", () => {
  it("shows the projection of its sources", async () => {
    const { backend, db, orders } = await open();
    await orders.insert(order(1, "mon", 10));
    await orders.insert(order(2, "mon", 20));
    await orders.insert(order(3, "tue", 0));
    await orders.update({ shop: "north", id: 2 }, () => ({ day: "tue" }));
    await letWorkersFinish(db);
    await check(db);
    const { entities } = await backend.tables.query("SalesByDay1", {});
    const rows = entities.map(({ partitionKey, rowKey, properties }) => {
      const { rh_t, rh_w, rh_x, ...rest } = properties;
      assert.ok(String(rh_w?.value).length >= 26);
      assert.equal(String(rh_x?.value).length, 26);
      return [partitionKey, rowKey, rh_t?.value, rest.total?.value];
    });
    assert.deepEqual(rows, [
      ["mon", "north_000001", "SalesByDay:1", 10],
      ["mon", "north_000002", "SalesByDay.gone:1", undefined],
      ["tue", "north_000002", "SalesByDay:1", 20],
    ]);
    const monday = await (await db.open(Sales).current()).range({ day: "mon" }).all();
    assert.deepEqual(
      monday.map(({ total }) => total),
      [10],
    );
  });

  it("drops projected values that are not fields of the view", async () => {
    const Whole = view("WholeByDay", {
      fields: { day: f.string(), shop: f.string(), id: f.int32() },
      key: { partition: [k.str("day")], row: [k.str("shop"), k.uint("id", 6)] },
      project: (source: Infer<typeof fields>) => source,
      queue: "views",
    });
    const Source = entity("Order", { ...declaration, followers: { whole: Whole } });
    const { db } = await open();
    await db.open(Source).insert({ ...order(1, "mon", 10), note: "soon" });
    await createWorker(db, { queue: "views", handlers: [viewUpdates([Source])] }).drain();
    const [{ etag: _etag, ...row } = { etag: "" }] = await (await db.open(Whole).current())
      .range({ day: "mon" })
      .all();
    assert.deepEqual(row, { day: "mon", shop: "north", id: 1 });
  });

  it("costs 4 requests for a write and 3 for each row, and none if the view does not change", async () => {
    const { backend, db } = await open();
    const insert = await connect(backend).metered((own) =>
      own.open(Order).insert(order(1, "mon", 10)),
    );
    assert.equal(insert.requests, 5);
    await letWorkersFinish(db);
    await db.open(Order).update({ shop: "north", id: 1 }, () => ({ total: 11 }));
    const work = await connect(backend).metered((own) => workerOf(own).drain());
    // Receive, state, three for the row, checkpoint, delete, and a receive that finds nothing.
    assert.deepEqual([work.result, work.requests], [1, 8]);
    const unseen = await connect(backend).metered((own) =>
      own.open(Order).update({ shop: "north", id: 1 }, () => ({ note: "late" })),
    );
    assert.equal(unseen.requests, 2);
  });

  it("reports its lag", async () => {
    const { backend, db, orders, sales } = await open();
    assert.deepEqual(await sales.status(), { generation: 1, lagMs: 0, appliedTo: undefined });
    const at = backend.clock.now();
    await orders.insert(order(1, "mon", 10));
    await db.clock.sleep(7000);
    assert.equal((await sales.status()).lagMs, 7000);
    await workerOf(db).drain();
    assert.deepEqual(await sales.status(), { generation: 1, lagMs: 0, appliedTo: new Date(at) });
  });

  it("is the same in whatever order and however often changes are delivered", async () => {
    const change = fc.record({
      id: fc.integer({ min: 1, max: 2 }),
      day: fc.constantFrom("mon", "tue"),
      total: fc.nat(2),
      isDelete: fc.boolean(),
    });
    const changes = fc.array(change, { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(changes, fc.array(fc.nat()), async (all, order) => {
        const { backend, db, orders } = await open();
        for (const { id, day, total, isDelete } of all) {
          if (isDelete) await orders.delete({ shop: "north", id });
          else await orders.upsert({ shop: "north", id, day, total });
        }
        const messages = backend.queues.contents("views").map(({ text }) => text);
        // In random order, most of them twice, with all of them once at the end.
        const drawn = order.map((n) => messages[n % Math.max(1, messages.length)]);
        for (const text of drawn.reverse()) {
          const message = text === undefined ? undefined : JSON.parse(text);
          const context = { database: db, signal: new AbortController().signal };
          if (message?.kind === "view") await viewUpdates([Order]).handle(message, context);
        }
        await letWorkersFinish(db);
        await check(db);
      }),
      histories(100),
    );
  });

  it("is rebuilt from its source in pages, and its old rows are dropped", async () => {
    const backend = memory({ pageEntitiesMax: 7 });
    const db = connect(backend);
    await prepare(db);
    for (let id = 1; id <= 20; id++) await db.open(Order).insert(order(id, "mon", id));
    const told: BuildProgress[] = [];
    const sales = db.open(Sales);
    const built = await rebuildView(db, Sales, Order, { onProgress: (one) => told.push(one) });
    assert.ok(told.length >= 3);
    assert.deepEqual(built, { done: 20, written: 20, errors: 0, duplicates: [] });
    assert.deepEqual(told.at(-1), built);
    const counts = told.map(({ done }) => done);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
    );
    assert.equal((await sales.status()).generation, 2);
    await check(db);
    assert.ok(!(await backend.tables.listTables({})).names.includes("SalesByDay1"));
    await letWorkersFinish(db);
    await check(db);
  });

  it("is rebuilt with one transaction for each hundred rows of a partition, at the given rate", async () => {
    const backend = memory({ pageEntitiesMax: 250 });
    const db = connect(backend);
    await prepare(db);
    await batch(db, (b) => {
      for (let id = 1; id <= 500; id++) b.insert(Plain, order(id, id % 2 ? "mon" : "tue", id));
    });
    const startedAt = backend.clock.now();
    const { requests } = await db.metered((metered) =>
      rebuildView(metered, Sales, Order, { graceMs: 0, rate: 100 }),
    );
    // Two pages, each with two days of 125 orders, and the requests for the state.
    assert.equal(requests, 2 * (1 + 2 * 2) + 9);
    // The second page waits for the first.
    assert.equal(backend.clock.now() - startedAt, 2500);
    await check(db);
  });

  it("can be read during its first rebuild, before any change", async () => {
    const { db } = await open();
    await db.open(Plain).insert(order(1, "mon", 1));
    const stop = new AbortController();
    const onProgress = () => stop.abort(new Error("Stopped."));
    const first = rebuildView(db, Sales, Order, { signal: stop.signal, onProgress });
    await assert.rejects(first, /Stopped/);
    assert.deepEqual(await shown(db), []);
    await rebuildView(db, Sales, Order);
    await check(db);
  });

  it("resumes an interrupted rebuild and its counts", async () => {
    const backend = memory({ pageEntitiesMax: 7 });
    const db = connect(backend);
    await prepare(db);
    for (let id = 1; id <= 20; id++) await db.open(Order).insert(order(id, "mon", id));
    await letWorkersFinish(db);
    const stop = new AbortController();
    const onProgress = () => stop.abort(new Error("Stopped."));
    const first = rebuildView(db, Sales, Order, { signal: stop.signal, onProgress });
    await assert.rejects(first, /Stopped/);
    assert.equal((await db.open(Sales).status()).rebuilding, 7);
    const { done, written } = await rebuildView(db, Sales, Order);
    assert.deepEqual([done, written], [20, 20]);
    await check(db);
  });

  it("handles changes even if other entities share the table or the name", async () => {
    const db = connect(memory());
    await prepare(db);
    await db.open(Order).insert(order(1, "mon", 1));
    const others = [
      entity("Return", declaration).in("Order"),
      entity("Order", declaration).in("Elsewhere"),
    ];
    const handlers = [viewUpdates([...others, Order])];
    await createWorker(db, { queue: "views", handlers }).drain();
    await check(db);
  });

  it("is refused if its rows would not identify their source", () => {
    const declare = (target: typeof Order.followers.sales) =>
      entity("Order", { ...declaration, followers: { target: target! } });
    const lacking = view("ByDay", {
      fields: { day: f.string(), id: f.int32() },
      key: { partition: [k.str("day")], row: [k.uint("id", 6)] },
      project: ({ day, id }: Infer<typeof fields>) => ({ day, id }),
      queue: "views",
    });
    assert.throws(
      () => declare(lacking),
      (error) => isTableError(error, "invalid-definition"),
    );
    const wrong = view("ByDay", {
      fields: { day: f.string(), shop: f.string(), id: f.int32() },
      key: { partition: [k.str("day")], row: [k.str("shop"), k.uint("id", 6)] },
      project: ({ day, shop, id }: Infer<typeof fields>) => ({ day, shop, id: id + 1 }),
      queue: "views",
    });
    const Wrong = declare(wrong);
    return assert.rejects(
      async () => {
        const db = connect(memory());
        await db.createTables(Wrong);
        await db.open(Wrong).insert(order(1, "mon", 1));
      },
      (error) => isTableError(error, "validation-failed"),
    );
  });
});

async function change(db: Database) {
  const orders = db.open(Order);
  await orders.update({ shop: "north", id: 1 }, () => ({ day: "tue" }));
  await orders.delete({ shop: "north", id: 2 });
  await orders.insert(order(3, "mon", 3));
  await workerOf(db).drain();
}

/** A writer that is suspended for too long gives up instead of committing after its tripwire. */
function ifInTime(work: (db: Database) => Promise<void>) {
  return (db: Database) =>
    work(db).catch((error) =>
      assert.ok(
        isTableError(error, "throttled") || isTableError(error, "contention-exhausted"),
        error,
      ),
    );
}

async function before(db: Database) {
  await prepare(db);
  await db.open(Order).insert(order(1, "mon", 1));
  await db.open(Order).insert(order(2, "mon", 2));
}

describe("the guarantees of a view", () => {
  it("hold whenever a writer or the projector crashes", async () => {
    assert.ok((await crashEverywhere(change, { before, recover: letWorkersFinish, check })) > 40);
  });

  it("hold if answers are lost, also during a rebuild", async () => {
    const checkAfterWorkers = async (db: Database) => {
      await letWorkersFinish(db);
      await check(db);
    };
    assert.ok((await loseEveryAnswer(change, { before, check: checkAfterWorkers })) > 20);
    const rebuild = (db: Database) => rebuildView(db, Sales, Order);
    const filled = async (db: Database) => {
      await before(db);
      await letWorkersFinish(db);
    };
    assert.ok((await loseEveryAnswer(rebuild, { before: filled, check: checkAfterWorkers })) >= 8);
  });

  it("let one rebuild run at a time, and the other fails with a conflict", async () => {
    const { db } = await open();
    const both = await Promise.allSettled([1, 2].map(() => rebuildView(db, Sales, Order)));
    const [lost, ...others] = both.flatMap((one) =>
      one.status === "rejected" ? [one.reason] : [],
    );
    assert.equal(others.length, 0);
    const isConflict = isTableError(lost, "conflict");
    assert.deepEqual([isConflict, isRefusal(lost.cause, 409)], [true, true]);
  });

  it("hold if a rebuild crashes and starts again after more changes", async () => {
    const crashes = await crashEverywhere(
      async (db) => {
        await rebuildView(db, Sales, Order);
      },
      {
        before: async (db) => {
          await before(db);
          await letWorkersFinish(db);
        },
        recover: async (db) => {
          await change(db);
          await rebuildView(db, Sales, Order);
          await letWorkersFinish(db);
        },
        check,
      },
    );
    assert.ok(crashes >= 16, `${crashes}`);
  });

  it("hold for concurrent writers, projectors and a rebuild", async () => {
    const write = async (db: Database) => {
      const orders = db.open(Order);
      for (let i = 0; i < 3; i++) {
        const day = db.random() < 0.5 ? "mon" : "tue";
        if (db.random() < 0.4) await orders.delete({ shop: "north", id: 1 });
        else await orders.upsert(order(1, day, Math.ceil(db.random() * 9)));
      }
    };
    const work = async (db: Database) => {
      for (let round = 0; round < 3; round++) {
        await workerOf(db).drain();
        await db.clock.sleep(1000);
      }
    };
    await interleave({
      clients: {
        one: ifInTime(write),
        worker: work,
        second: work,
        builder: async (db) => {
          await rebuildView(db, Sales, Order, { graceMs: 1000 });
        },
      },
      before,
      recover: letWorkersFinish,
      check,
      runs: schedules(60),
    });
  });

  it("hold if these crash", async () => {
    await interleave({
      clients: {
        one: ifInTime(change),
        worker: (db) => workerOf(db).drain(),
        two: (db) => rebuildOnce(db),
      },
      before,
      recover: async (db) => {
        await letWorkersFinish(db);
      },
      check,
      crashShare: 0.02,
      pausesMs: [91_000],
      runs: schedules(60),
    });
  });

  /** Two projectors of a change to the same source, and no third to repair what they do. */
  function twoProjectors(runs: number, layer?: Layer) {
    const key = { partitionKey: "mon", rowKey: "north_000001" };
    const base = { partitionKey: "north", rowKey: "order_000001" };
    const body = { view: "SalesByDay", entity: "Order", table: "Order", base, keys: [key] };
    const message = {
      v: 1,
      id: "m",
      kind: "view",
      key: "",
      at: "2026-01-01T00:00:00Z",
      body,
    } as const;
    const hear = (database: Database) =>
      viewUpdates([Order]).handle(message, { database, signal: new AbortController().signal });
    return interleave({
      clients: {
        one: hear,
        two: async (db) => {
          if (db.random() < 0.5) await db.open(Plain).delete({ shop: "north", id: 1 });
          else await db.open(Plain).update({ shop: "north", id: 1 }, () => ({ total: 5 }));
          await hear(db);
        },
      },
      before: async (db) => {
        await prepare(db);
        await db.createTables({ tables: ["SalesByDay1", "rhcontrol"] });
        await db.open(Order).insert(order(1, "mon", 1));
        if (db.random() < 0.5) await hear(db);
      },
      check,
      runs,
      ...(layer && { layer: () => layer, seed: 1 }),
    });
  }

  /** The row of the view that a request writes. */
  const rowIn = ({ method, args: [table, mutations] }: PortCall): Mutation | undefined =>
    method === "commit" && String(table).startsWith("SalesByDay")
      ? (mutations as readonly Mutation[])[0]
      : undefined;

  it("hold for two projectors in any order", async () => {
    await twoProjectors(schedules(600));
  });

  it("would break if rows were written without their ETag (the check notices)", async () => {
    const blind: Layer = (call, send) => {
      const row = rowIn(call);
      // The service accepts any version, and replaces what it finds there.
      if (row?.kind === "replace") Object.assign(row, { ifMatch: "*" });
      return send();
    };
    await assert.rejects(twoProjectors(1000, blind), /Fails with/);
  });

  it("would break without tombstones (the check notices)", async () => {
    const careless: Layer = async (call, send) => {
      const row = rowIn(call);
      const isGone = row?.kind === "insert" && row.properties.rh_t?.value === "SalesByDay.gone:1";
      return isGone ? [undefined] : send();
    };
    await assert.rejects(twoProjectors(1000, careless), /Fails with/);
  });
});

async function rebuildOnce(db: Database) {
  await rebuildView(db, Sales, Order, { graceMs: 1000 });
}
