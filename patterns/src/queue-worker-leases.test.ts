import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, it } from "node:test";
import { connect, isTableError } from "./index.ts";
import { note, open, QUEUE } from "./messages/test-worker.ts";
import { createWorker, Fatal, type Handler, later, sendMessage } from "./queue-worker.ts";
import type { Clock } from "./store/clock.ts";
import { deadlineOf } from "./store/layer.ts";
import { FakeClock, intercept, type Layer, memory, withFaults } from "./testing.ts";

/** The same clock, this much ahead. */
function off(clock: FakeClock, byMs: () => number): Clock {
  return {
    now: () => clock.now() + byMs(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    alarm: (ms, signal) => clock.alarm(ms, signal),
  };
}

describe("a queue worker that holds messages", () => {
  it("renews the lease of a long job, so no other worker receives it", async () => {
    const clock = new FakeClock();
    const { backend, worker, send, left } = await open(
      async () => {
        for (let i = 0; i < 10; i++) {
          clock.advance(20_000);
          await ticks();
          const others = await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 1000 });
          assert.deepEqual(others, []);
        }
      },
      {},
      memory({ clock }),
    );
    await send("a");
    await worker.drain();
    assert.equal(left(), 0);
  });

  it("lets a handler write only while the worker holds the message, even after a stall", async () => {
    for (const isTaken of [false, true]) {
      const clock = new FakeClock();
      let stoodMs = 0;
      // A suspended process sees no alarm before it continues.
      const ours = off(clock, () => stoodMs);
      const sent: unknown[] = [];
      let asked: unknown[] = [];
      const watching: Layer = (call, request) => {
        sent.push([call.method, deadlineOf(call).timeoutS]);
        return request();
      };
      const backend = memory({ clock });
      const db = connect({ ...intercept(backend, watching), clock: ours });
      await backend.tables.createTable("Notes");
      await backend.blobs.createContainer("notes");
      const insert = (rowKey: string) =>
        [{ kind: "insert", partitionKey: "p", rowKey, properties: {} }] as const;
      const bytes = new Uint8Array(1);
      const refusals: unknown[] = [];
      const handle: Handler["handle"] = async (_message, { database: { tables, blobs } }) => {
        sent.length = 0;
        stoodMs = 10_000;
        await blobs?.put("notes", "early", bytes);
        await blobs?.delete("notes", "early");
        await tables.commit("Notes", insert("early"), { timeoutS: 20 });
        stoodMs = 61_000;
        if (isTaken) {
          clock.advance(61_000);
          stoodMs = 0;
          await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 600_000 });
        }
        const late = [tables.commit("Notes", insert("late")), blobs?.put("notes", "late", bytes)];
        for (const request of late) await request?.catch(({ code }) => refusals.push(code));
        stoodMs = 0;
        asked = sent.splice(0);
      };
      const worker = createWorker(db, { queue: QUEUE, handlers: [{ kind: "note", handle }] });
      await worker.createQueues();
      await sendMessage(db, QUEUE, { kind: "note", key: "a", body: {} });
      assert.equal(await worker.drain(), isTaken ? 0 : 1);
      const early = [
        ["put", 50],
        ["delete", 50],
        ["commit", 20],
        ["update", undefined],
      ];
      const late = [
        ["commit", 60],
        ["put", 60],
      ];
      assert.deepEqual(asked, isTaken ? early : [...early, ...late]);
      assert.deepEqual(refusals, isTaken ? ["conflict", "conflict"] : []);
    }
  });

  it("renews a lease before a write that could outlast it, and after the clock was set back", async () => {
    const clock = new FakeClock();
    const backend = memory({ clock });
    const sent: unknown[] = [];
    const watching: Layer = (call, request) => {
      sent.push([call.method, deadlineOf(call).timeoutS]);
      return request();
    };
    let offMs = 0;
    const ours = off(clock, () => offMs);
    const db = connect({ ...intercept(backend, watching), clock: ours });
    await backend.tables.createTable("Notes");
    const handle: Handler["handle"] = async (_message, { database: { tables } }) => {
      sent.length = 0;
      for (offMs of [59_000, 59_001, -3_600_000]) {
        const properties = { at: { type: "Double", value: offMs } } as const;
        const row = { partitionKey: "p", rowKey: "r", properties };
        await tables.commit("Notes", [{ kind: "insertOrReplace", ...row }]);
      }
      offMs = 0;
    };
    const worker = createWorker(db, { queue: QUEUE, handlers: [{ kind: "note", handle }] });
    await worker.createQueues();
    await sendMessage(db, QUEUE, note("a"));
    await worker.drain();
    const renewed = [
      ["update", undefined],
      ["commit", 60],
    ];
    assert.deepEqual(sent.slice(0, 5), [["commit", 1], ...renewed, ...renewed]);
  });

  it("does not renew the lease of a failed message for requests that its handler left running", async () => {
    const clock = new FakeClock();
    let late: () => Promise<unknown> = async () => undefined;
    const { backend, worker, send } = await open(
      async (_message, { database }) => {
        late = () => database.tables.listTables({});
        throw new Error("not now");
      },
      {},
      memory({ clock }),
    );
    await send("a");
    await worker.drain();
    await late();
    clock.advance(2001);
    await assert.rejects(late(), (error) => isTableError(error, "throttled"));
    assert.equal((await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 1000 })).length, 1);
  });

  it("aborts a handler that lost its lease, and leaves the message to the other worker", async () => {
    const clock = new FakeClock();
    let aborted = false;
    let refusal: unknown;
    const { backend, worker, send, left } = await open(
      async (_message, { database, signal }) => {
        // A stall: the renewal comes too late.
        clock.advance(61_000);
        await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 600_000 });
        await ticks();
        aborted = signal.aborted;
        refusal = await database.tables.listTables({}).catch((error) => error);
      },
      {},
      memory({ clock }),
    );
    await send("a");
    await worker.drain();
    assert.ok(aborted);
    assert.ok(isTableError(refusal, "conflict") && /went to another worker/.test(refusal.message));
    assert.equal(left(), 1);
  });

  it("does nothing with a message it lost, however its handler ends", async () => {
    const ends = [
      async () => undefined,
      async () => later(1000),
      async () => {
        throw new Fatal("never");
      },
      async () => {
        throw new Error("not now");
      },
    ];
    for (const end of ends) {
      const clock = new FakeClock();
      const told: unknown[] = [];
      const { backend, worker, send, left } = await open(
        async () => {
          clock.advance(61_000);
          await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 600_000 });
          await ticks();
          return end();
        },
        { onDone: (message) => told.push(message), onFailure: (message) => told.push(message) },
        memory({ clock }),
      );
      await send("a");
      const { text } = backend.queues.contents(QUEUE)[0]!;
      await worker.drain();
      const messages = backend.queues.contents(QUEUE);
      assert.deepEqual(
        messages.map((message) => message.text),
        [text],
      );
      assert.deepEqual([left(`${QUEUE}-poison`), told.length], [0, 0]);
    }
  });

  it("reports a failed message that it cannot give back, unless another worker has it", async () => {
    for (const [status, told] of [
      [403, ["background failure"]],
      [404, []],
    ] as const) {
      const { backend, send } = await open(async () => undefined);
      await send("a");
      const refusing = withFaults(({ method }) =>
        method === "update" ? { kind: "refuse", status, code: "Refused" } : undefined,
      );
      const events: string[] = [];
      const onEvent = ({ kind }: { kind: string }) => events.push(kind);
      const handle = async () => {
        throw new Error("not now");
      };
      const db = connect({ ...backend, ...intercept(backend, refusing), onEvent });
      const handlers = [{ kind: "note", handle }];
      await createWorker(db, { queue: QUEUE, handlers, onFailure: () => {} }).drain();
      assert.deepEqual(events, told);
    }
  });

  it("on stop finishes short jobs, and gives back jobs that exceed the drain timeout", async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const ended: string[] = [];
    let slowIsAborted = false;
    const { backend, worker, send, left } = await open(
      async ({ key }, { signal }) => {
        if (key === "slow") {
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
          slowIsAborted = true;
          return;
        }
        stop.abort();
        await ticks();
        ended.push(key);
      },
      { concurrency: 2, drainTimeoutMs: 10_000 },
      memory({ clock }),
    );
    await send("slow");
    await send("quick");
    await send("not begun");
    const running = worker.run({ signal: stop.signal });
    for (let i = 0; i < 20; i++) await ticks();
    clock.advance(10_000);
    await running;
    assert.deepEqual([ended, slowIsAborted, left()], [["quick"], true, 2]);
    const visible = await backend.queues.receive(QUEUE, { max: 5, visibilityMs: 1000 });
    assert.deepEqual(visible.map(({ text }) => JSON.parse(text).key).sort(), ["not begun", "slow"]);
  });

  it("gives back a message that it received while it was being stopped, and stops renewing it", async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const backend = memory({ clock });
    const stopping: Layer = async ({ method }, send) => {
      const answer = await send();
      if (method === "receive") stop.abort();
      return answer;
    };
    let end = () => {};
    const handle = () =>
      new Promise<void>((resolve) => {
        end = resolve;
      });
    const db = connect({ ...backend, ...intercept(backend, stopping) });
    const worker = createWorker(db, {
      queue: QUEUE,
      handlers: [{ kind: "note", handle }],
      concurrency: 1,
      drainTimeoutMs: 10_000,
    });
    await worker.createQueues();
    await sendMessage(db, QUEUE, note("a"));
    const running = worker.run({ signal: stop.signal });
    for (let i = 0; i < 20; i++) await ticks();
    clock.advance(10_000);
    await running;
    // The handler ignores its signal.
    clock.advance(30_000);
    for (let i = 0; i < 20; i++) await ticks();
    assert.equal((await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 1000 })).length, 1);
    end();
  });

  it("leaves no listeners on its signal for messages it handled", async () => {
    const stop = new AbortController();
    const listening: number[] = [];
    const { worker, send } = await open(
      async () => {
        await ticks();
        listening.push(getEventListeners(stop.signal, "abort").length);
        if (listening.length === 20) stop.abort();
      },
      { concurrency: 1 },
    );
    for (let i = 0; i < 20; i++) await send(`${i}`);
    await worker.run({ signal: stop.signal });
    assert.equal(listening[19], listening[1]);
  });
});

/** Runs everything that is ready to run. */
function ticks(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
