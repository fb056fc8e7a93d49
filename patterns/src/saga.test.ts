import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, isTableError } from "./index.ts";
import { createWorker, Fatal } from "./queue-worker.ts";
import { backTo, type Saga, saga } from "./saga.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { crashEverywhere, interleave, type Memory, memory } from "./testing.ts";

/** A saga that writes one row for each completed step and deletes it when the step is undone. */
function journal(failing: number | undefined, attempts = 1, length = 3) {
  const tries = new Map<string, number>();
  const step = (i: number) => async (context: { db: Database; stepKey: string }) => {
    const count = (tries.get(context.stepKey) ?? 0) + 1;
    tries.set(context.stepKey, count);
    if (count < attempts) throw new Error("not yet");
    if (i === failing) throw new Fatal("never");
    await context.db.tables.commit("Journal", [
      { kind: "insertOrReplace", partitionKey: "p", rowKey: `step ${i}`, properties: {} },
    ]);
    return i;
  };
  const undo = (i: number) => async (context: { db: Database }) => {
    const key = { partitionKey: "p", rowKey: `step ${i}` };
    const stored = await context.db.tables.get("Journal", key);
    if (stored) {
      await context.db.tables.commit("Journal", [{ kind: "delete", ...key, ifMatch: "*" }]);
    }
  };
  return saga("journal", (s) => {
    let builder = s.input<{ id: string }>().step("step 0", step(0), undo(0));
    for (let i = 1; i < length; i++) {
      builder = builder.step(`step ${i}`, step(i), undo(i)) as typeof builder;
    }
    return builder;
  });
}

async function prepare(db: Database) {
  await db.tables.createTable("Sagas");
  await db.tables.createTable("Journal");
  await db.queues?.createQueue("work");
  await db.queues?.createQueue("work-poison");
}

async function work(db: Database, saga: Saga<{ id: string }>, rounds = 8) {
  const worker = createWorker(db, { queue: "work", handlers: [saga] });
  for (let round = 0; round < rounds; round++) {
    await worker.drain();
    await db.clock.sleep(61_000);
  }
}

async function rows({ tables }: Memory): Promise<string[]> {
  return (await tables.query("Journal", {})).entities.map(({ rowKey }) => rowKey);
}

const input = { id: "x" };

describe("a saga", () => {
  it("passes results and step keys to its steps, and runs once for each id", async () => {
    const seen: unknown[] = [];
    const pricing = saga("pricing", (s) =>
      s
        .input<{ id: string }>()
        .step("price", async ({ input }) => ({ cents: input.id.length * 100 }))
        .step("charge", async ({ results, stepKey }) => {
          seen.push(results.price.cents, stepKey);
        }),
    );
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    await pricing.start(db, { id: "one", input: { id: "abc" } });
    await work(db, pricing, 1);
    assert.deepEqual(seen, [300, "one/charge"]);
    const state = await pricing.state(db, "one");
    assert.deepEqual([state?.status, state?.results.price], ["done", { cents: 300 }]);
    await pricing.start(db, { id: "one", input: { id: "abcdef" } });
    await work(db, pricing, 1);
    assert.equal(seen.length, 2);
  });

  it("ends with every step done or all of them undone, as in a sequential run", async () => {
    const settings = fc.record({
      failing: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }),
      attempts: fc.integer({ min: 1, max: 5 }),
      length: fc.integer({ min: 1, max: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(settings, async ({ failing, attempts, length }) => {
        const backend = memory();
        const db = connect(backend);
        await prepare(db);
        const definition = journal(failing, attempts, length);
        await definition.start(db, { id: "one", input });
        await work(db, definition, 40);
        const fails = failing !== undefined && failing < length;
        const all = Array.from({ length }, (_, i) => `step ${i}`);
        assert.equal((await definition.state(db, "one"))?.status, fails ? "undone" : "done");
        assert.deepEqual(await rows(backend), fails ? [] : all);
      }),
      histories(60),
    );
  });

  it("finishes if answers to its client or its worker are lost", async () => {
    for (const failing of [undefined, 2]) {
      const definition = journal(failing);
      const whole = async (db: Database) => {
        await definition.start(db, { id: "one", input });
        await work(db, definition, 3);
      };
      const check = async (db: Database, backend: Memory) => {
        assert.equal((await definition.state(db, "one"))?.status, failing ? "undone" : "done");
        assert.deepEqual(await rows(backend), failing ? [] : ["step 0", "step 1", "step 2"]);
        for (const queue of ["work", "work-poison"]) {
          assert.deepEqual(backend.queues.contents(queue), []);
        }
      };
      assert.ok((await loseEveryAnswer(whole, { before: prepare, check })) > 8);
    }
  });

  for (const failing of [undefined, 2]) {
    it(`survives a crash at every request ${failing ? "while it is undone" : "while it runs"}`, async () => {
      const definition = journal(failing);
      await crashEverywhere(
        async (db) => {
          await definition.start(db, { id: "one", input });
          await work(db, definition, 1);
        },
        {
          before: prepare,
          recover: async (db) => {
            // A client that got no answer starts it again.
            await definition.start(db, { id: "one", input });
            await work(db, definition);
          },
          check: async (db, backend) => {
            assert.equal((await definition.state(db, "one"))?.status, failing ? "undone" : "done");
            const all = ["step 0", "step 1", "step 2"];
            assert.deepEqual(await rows(backend), failing ? [] : all);
            assert.deepEqual(backend.queues.contents("work-poison"), []);
          },
        },
      );
    });
  }

  it("ends once when two workers and two deliveries race", async () => {
    const definition = journal(undefined);
    await interleave({
      before: async (db) => {
        await prepare(db);
        await definition.start(db, { id: "one", input });
        await definition.start(db, { id: "one", input });
      },
      clients: { one: (db) => work(db, definition, 2), two: (db) => work(db, definition, 2) },
      crashShare: 0.02,
      recover: (db) => work(db, definition),
      check: async (db, backend) => {
        assert.equal((await definition.state(db, "one"))?.status, "done");
        assert.deepEqual(await rows(backend), ["step 0", "step 1", "step 2"]);
        assert.deepEqual(backend.queues.contents("work"), []);
      },
      runs: schedules(200),
    });
  });

  it("is undone if it goes back to a step that does not exist", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const lost = saga("lost", (s) =>
      s.input<{ id: string }>().step("only", async () => backTo("nowhere")),
    );
    await lost.start(db, { id: "one", input });
    await work(db, lost, 1);
    const state = await lost.state(db, "one");
    assert.equal(state?.status, "undone");
    assert.match(state?.error ?? "", /"nowhere", which is not a step/);
  });

  it("is undone, including the step itself, if a step returns more than its row can hold", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const undone: unknown[] = [];
    const wordy = saga("wordy", (s) =>
      s
        .input<{ id: string }>()
        .step(
          "short",
          async () => "s",
          async ({ results }) => undone.push(results.short),
        )
        .step(
          "long",
          async () => "l".repeat(32_000),
          async ({ results }) => undone.push(results.long.length),
        ),
    );
    await wordy.start(db, { id: "one", input });
    await work(db, wordy, 1);
    const state = await wordy.state(db, "one");
    assert.equal(state?.status, "undone");
    assert.match(state?.error ?? "", /With the result of long.* at most 32000 are allowed/);
    assert.deepEqual(undone, [32_000, "s"]);
  });

  it("refuses an input that its row cannot hold", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const start = journal(undefined).start(db, { id: "one", input: { id: "x".repeat(32_000) } });
    await assert.rejects(start, (error) => isTableError(error, "validation-failed"));
    assert.deepEqual(backend.queues.contents("work"), []);
  });

  it("refuses an id that cannot be a key", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    for (const [id, code] of [
      ["x".repeat(520), "key-too-long"],
      ["a\ud83d", "validation-failed"],
      [undefined as unknown as string, "validation-failed"],
    ] as const) {
      const start = journal(undefined).start(db, { id, input });
      await assert.rejects(start, (error) => isTableError(error, code));
    }
    const nothing = journal(undefined).start(db, undefined as never);
    await assert.rejects(nothing, (error) => isTableError(error, "validation-failed"));
    assert.deepEqual(backend.queues.contents("work"), []);
  });

  it("is not continued by code of another version", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const build = (version: number, fails: boolean) =>
      saga(
        "job",
        (s) =>
          s.input<{ id: string }>().step("only", async () => {
            if (fails) throw new Error("not yet");
          }),
        { version },
      );
    await build(1, true).start(db, { id: "one", input });
    await work(db, build(1, true), 1);
    const stored = await backend.tables.get("Sagas", {
      partitionKey: "saga_job.~~one",
      rowKey: "state",
    });
    const { rh_w: _token, ...properties } = stored!.properties;
    const state = { status: "running", version: 1, next: 0, results: {}, input };
    assert.deepEqual(properties, {
      name: { type: "String", value: "job" },
      status: { type: "String", value: "running" },
      state: { type: "String", value: JSON.stringify(state) },
    });
    await work(db, build(2, false), 1);
    const [poison] = backend.queues.contents("work-poison");
    assert.match(JSON.parse(poison!.text).failure.error, /started by version 1; this is 2/);
  });
});
