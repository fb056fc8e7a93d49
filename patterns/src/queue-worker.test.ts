import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, isTableError } from "./index.ts";
import { note, open, QUEUE } from "./messages/test-worker.ts";
import { createWorker, Fatal, type Handler, later, sendMessage } from "./queue-worker.ts";
import { schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { intercept, interleave, type Layer, type Memory, memory, withFaults } from "./testing.ts";

describe("a queue worker", () => {
  it("passes each message to its handler and deletes it", async () => {
    const seen: string[] = [];
    const { worker, send, left } = await open(async ({ key, body, v }) => {
      seen.push(`${key} ${JSON.stringify(body)} ${v}`);
    });
    for (const key of ["a", "b", "c", "d", "e", "f"]) await send(key);
    assert.equal(await worker.drain(), 6);
    assert.equal(seen.length, 6);
    assert.equal(seen[0], 'a {"key":"a"} 1');
    assert.equal(left(), 0);
  });

  it("backs off after failures, and sets a message aside after maxDequeue deliveries, with the last error", async () => {
    for (const maxDequeue of [1, 5]) {
      let tries = 0;
      const { backend, worker, send, left } = await open(
        async () => {
          throw new Error(`try ${++tries}`);
        },
        { maxDequeue },
      );
      await send("a");
      const waits: number[] = [];
      for (let waited = 0; left() > 0; ) {
        const before = tries;
        await worker.drain();
        if (tries > before) {
          waits.push(waited);
          waited = 0;
        }
        backend.clock.advance(1000);
        waited++;
      }
      assert.equal(tries, maxDequeue);
      assert.deepEqual(waits, [0, 2, 4, 10, 30].slice(0, maxDequeue));
      const [poison] = await worker.peekPoison();
      assert.deepEqual(
        [poison?.key, poison?.failure?.error, poison?.failure?.dequeueCount],
        ["a", `Error: try ${maxDequeue}`, maxDequeue],
      );
    }
  });

  it("immediately sets aside a message that fails with Fatal, has no handler, or cannot be parsed", async () => {
    const { db, backend, worker, send, left } = await open(async () => {
      throw new Fatal("never");
    });
    await send("a");
    await sendMessage(db, QUEUE, { kind: "unknown", key: "b", body: null });
    await backend.queues.send(QUEUE, "<xml/>");
    await worker.drain();
    assert.deepEqual([left(), left("work-poison")], [0, 3]);
    const poison = await worker.peekPoison();
    assert.deepEqual(poison.map((message) => message?.failure?.error ?? "").sort(), [
      "",
      "Fatal: never",
      "no handler for unknown",
    ]);
  });

  it("reports each message it sets aside as poison-message, with the error as its cause", async () => {
    const told: string[] = [];
    const { db, backend, worker, send } = await open(
      async ({ key }) => {
        throw key === "a" ? new Fatal("never") : new Error("not yet");
      },
      {
        maxDequeue: 1,
        concurrency: 1,
        onFailure: (message, error) => {
          const isPoison = isTableError(error, "poison-message");
          const { queue, id, dequeueCount } = isPoison ? error : {};
          const said = isPoison ? [queue, id === message?.id, dequeueCount, error.cause] : [error];
          told.push([message?.key, ...said.map(String)].join(" "));
        },
      },
    );
    await send("a");
    await sendMessage(db, QUEUE, note("b"));
    await worker.drain();
    backend.clock.advance(2000);
    await worker.drain();
    assert.deepEqual(told, ["a work true 1 Fatal: never", "b work true 1 Error: not yet"]);
  });

  it("counts only what succeeded, and reports a failure that no onFailure is told about", async () => {
    const { backend, send } = await open(async () => undefined);
    for (const key of ["good", "bad"]) await send(key);
    const events: string[] = [];
    const db = connect({
      ...backend,
      onEvent: (event) => {
        if (event.kind === "background failure") events.push(`${event.what}: ${event.error}`);
      },
    });
    const handle: Handler["handle"] = async ({ key }) => {
      if (key === "bad") throw new Error("it is broken");
    };
    const worker = createWorker(db, { queue: QUEUE, handlers: [{ kind: "note", handle }] });
    assert.equal(await worker.drain(), 1);
    assert.equal(events.length, 1);
    assert.match(events[0]!, /^handling message \w+ of work: Error: it is broken$/);
  });

  it("serves several queues, each with its own poison queue", async () => {
    const backend = memory();
    const db = connect(backend);
    const handled: string[] = [];
    const handle: Handler["handle"] = async ({ key }) => {
      if (key === "c") throw new Fatal("never");
      handled.push(key);
    };
    const queue = ["orders", "mails"];
    const worker = createWorker(db, {
      queue,
      handlers: [{ kind: "note", handle }],
      concurrency: 1,
    });
    assert.deepEqual(worker.queues, ["orders", "orders-poison", "mails", "mails-poison"]);
    await worker.createQueues();
    await sendMessage(db, "orders", note("a"));
    for (const key of ["b", "c"]) await sendMessage(db, "mails", note(key));
    assert.equal(await worker.drain(), 2);
    assert.deepEqual(handled.sort(), ["a", "b"]);
    const left = async (name: string) => (await backend.queues.peek(name, 32)).length;
    assert.deepEqual([await left("orders-poison"), await left("mails-poison")], [0, 1]);
    assert.equal(await worker.redrive(), 1);
    assert.deepEqual([await left("mails"), await left("mails-poison")], [1, 0]);
    const both = { queue, handlers: [], poisonQueue: "poison" };
    assert.throws(() => createWorker(db, both), { code: "validation-failed" });
  });

  it("lets timers and signals in while it waits on a memory backend", async () => {
    const { worker } = await open(async () => undefined);
    const { signal } = new AbortController();
    await worker.run({ signal: AbortSignal.any([signal, AbortSignal.timeout(20)]) });
  });

  it("sends poison messages back to the queue on demand", async () => {
    let isBroken = true;
    const { worker, send, left } = await open(async () => {
      if (isBroken) throw new Fatal("broken");
    });
    for (const key of ["a", "b", "c"]) await send(key);
    await worker.drain();
    isBroken = false;
    assert.equal(await worker.redrive(2), 2);
    assert.equal(await worker.redrive(), 1);
    await worker.drain();
    assert.deepEqual([left(), left("work-poison")], [0, 0]);
  });

  it("sends back only the poison messages that were there, even if all of them fail again immediately", async () => {
    const handle = async () => {
      throw new Fatal("still broken");
    };
    const { backend, worker, send, left } = await open(handle);
    for (const key of ["a", "b", "c"]) await send(key);
    await worker.drain();
    let sent = 0;
    const drainAfterSend: Layer = async ({ method }, request) => {
      const answer = await request();
      if (method === "send") {
        assert.ok(++sent <= 3, "sends without end");
        await worker.drain();
      }
      return answer;
    };
    const ports = { ...backend, ...intercept(backend, drainAfterSend) };
    const operator = createWorker(connect(ports), { queue: QUEUE, handlers: [] });
    assert.deepEqual([await operator.redrive(), left("work-poison")], [3, 3]);
  });

  it("sends back all poison messages that were there, in any order, and no newer ones", async () => {
    const { backend, worker, left } = await open(async () => {});
    const { queues, clock } = backend;
    for (let i = 0; i < 40; i++) await queues.send("work-poison", "<same/>");
    let sent = 0;
    const addPoisonBeforeSend: Layer = async ({ port, method, args }, request) => {
      if (port === "queues" && method === "send" && args[0] === QUEUE) {
        assert.ok(++sent <= 100, "sends without end");
        clock.advance(300);
        // Messages without a handler become poison again, while others fail at the same time.
        await queues.send("work-poison", sent % 2 ? "<same/>" : `<${sent}/>`);
      }
      return request();
    };
    const ports = { ...backend, ...intercept(backend, addPoisonBeforeSend) };
    const operator = createWorker(connect(ports), { queue: QUEUE, handlers: [] });
    assert.deepEqual([await operator.redrive(), left("work-poison")], [40, 40]);
    assert.equal((await worker.peekPoison(32)).length, 32);
  });

  it("delivers a message later as often as its handler asks, without counting failures", async () => {
    let times = 0;
    const { backend, worker, send, left } = await open(async () =>
      ++times < 20 ? later(60_000) : undefined,
    );
    await send("a");
    for (; left() > 0; backend.clock.advance(60_000)) await worker.drain();
    assert.deepEqual([times, left("work-poison")], [20, 0]);
  });

  it("sets aside a message whose requested delay a queue cannot hold", async () => {
    let times = 0;
    const days = (count: number) => later(count * 24 * 3_600_000);
    const { worker, send, left } = await open(async () => days([7, 8, Number.NaN, -1][times++]!));
    for (const key of ["a", "b", "c", "d"]) await send(key);
    await worker.drain();
    assert.deepEqual([times, left(), left("work-poison")], [4, 1, 3]);
  });

  it("is never sent a message without a kind", async () => {
    const { backend, db } = await open(async () => undefined);
    for (const message of [undefined, null, {}, { kind: 5 }] as never[]) {
      await assert.rejects(sendMessage(db, QUEUE, message), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
    assert.deepEqual(backend.queues.contents(QUEUE), []);
  });

  it("keeps as much of the error as fits when it sets a large message aside", async () => {
    const aside = async (room: number) => {
      const backend = memory();
      // Like a client that sends Base64.
      const inBase64: Layer = async ({ method, args }, request) => {
        const text = method === "send" ? args[1] : (args[2] as { text?: string } | undefined)?.text;
        if (typeof text === "string") assert.ok(Buffer.byteLength(text) <= 48 * 1024, "refused");
        return request();
      };
      const { worker } = await open(
        async () => {
          throw new Fatal("é".padEnd(1000, "n"));
        },
        {},
        { ...backend, ...intercept(backend, inBase64) } as Memory,
      );
      const message = { ...note("a"), v: 1, id: "m", at: new Date().toISOString(), body: "" };
      const body = "x".repeat(48 * 1024 - JSON.stringify(message).length - room);
      await backend.queues.send(QUEUE, JSON.stringify({ ...message, body }));
      await worker.drain();
      const [poison] = await worker.peekPoison();
      assert.deepEqual([poison?.id, poison?.body], ["m", body]);
      return poison?.failure?.error;
    };
    assert.equal(await aside(0), undefined);
    assert.match((await aside(500)) ?? "", /^Fatal: én{350,430}$/);
    assert.equal((await aside(2000))?.length, 1007);
  });

  it("costs the requests that the manual states", async () => {
    const backend = memory();
    const db = connect(backend);
    await createWorker(db, { queue: QUEUE, handlers: [] }).createQueues();
    const { requests: toSend } = await db.metered(async (metered) => {
      for (let i = 0; i < 10; i++) await sendMessage(metered, QUEUE, note("a"));
    });
    const { requests: toWork } = await db.metered((metered) =>
      createWorker(metered, {
        queue: QUEUE,
        handlers: [{ kind: "note", handle: async () => {} }],
        concurrency: 32,
      }).drain(),
    );
    // One request to receive them, one to delete each, one to see that no more are left.
    assert.deepEqual([toSend, toWork], [10, 1 + 10 + 1]);
  });

  it("continues after a failed receive, and idles ever longer while the queue is empty", async () => {
    const stop = new AbortController();
    const backend = memory();
    let count = 0;
    const faults = withFaults((call) => {
      if (call.method !== "receive") return undefined;
      if (++count === 30) stop.abort();
      return count === 5
        ? { kind: "refuse", status: 403, code: "AuthorizationFailure" }
        : undefined;
    });
    const events: string[] = [];
    const onEvent = ({ kind }: { kind: string }) => events.push(kind);
    const db = connect({ ...backend, ...intercept(backend, faults), onEvent });
    const from = backend.clock.now();
    await createWorker(db, { queue: QUEUE, handlers: [] }).run({ signal: stop.signal });
    assert.deepEqual(events, ["background failure"]);
    const seconds = (backend.clock.now() - from) / 1000;
    assert.ok(seconds > 300 && seconds < 1200, `${seconds} seconds for 30 empty answers`);
  });

  it("rejects a drain of a missing queue, and names it", async () => {
    const worker = createWorker(connect(memory()), { queue: "nowhere", handlers: [] });
    await assert.rejects(worker.drain(), /There is no queue "nowhere"/);
  });

  it("applies every message or sets it aside if answers are lost", async () => {
    const applied: string[] = [];
    const worker = (db: Parameters<typeof createWorker>[0]) =>
      createWorker(db, {
        queue: QUEUE,
        handlers: [
          {
            kind: "note",
            async handle({ key }) {
              if (key === "bad") throw new Fatal("bad");
              if (key === "later" && !applied.includes("asked")) {
                applied.push("asked");
                return later(1000);
              }
              applied.push(key);
              return undefined;
            },
          },
        ],
      });
    const lost = await loseEveryAnswer((db) => worker(db).drain(), {
      before: async (db) => {
        applied.length = 0;
        await worker(db).createQueues();
        for (const key of ["good", "bad", "later"]) await sendMessage(db, QUEUE, note(key));
      },
      check: async (db, { queues }) => {
        for (let round = 0; round < 3; round++) {
          await db.clock.sleep(61_000);
          await worker(db).drain();
        }
        for (const key of ["good", "later"]) assert.ok(applied.includes(key), key);
        const poison = queues.contents(`${QUEUE}-poison`).map(({ text }) => JSON.parse(text));
        assert.deepEqual([...new Set(poison.map(({ key }) => key))], ["bad"]);
        assert.equal(new Set(poison.map(({ id }) => id)).size, 1);
        assert.deepEqual(queues.contents(QUEUE), []);
      },
    });
    assert.ok(lost >= 6, `${lost}`);
  });

  it("applies every message at least once or sets it aside, whichever worker crashes (K1, K2)", async () => {
    const applied = new Set<string>();
    const worker = (db: Parameters<typeof createWorker>[0]) =>
      createWorker(db, {
        queue: QUEUE,
        handlers: [
          {
            kind: "note",
            async handle({ key }, { database }) {
              await database.queues?.peek(QUEUE, 1);
              applied.add(key);
            },
          },
        ],
      });
    await interleave({
      before: async (db) => {
        applied.clear();
        await worker(db).createQueues();
        for (const key of ["a", "b", "c"]) await sendMessage(db, QUEUE, note(key));
      },
      clients: { one: (db) => worker(db).drain(), two: (db) => worker(db).drain() },
      crashShare: 0.05,
      pausesMs: [10_000, 61_000],
      recover: async (db) => {
        for (let i = 0; i < 8; i++) {
          await db.clock.sleep(61_000);
          await worker(db).drain();
        }
      },
      check: async (_db, { queues }) => {
        const poison = queues.contents(`${QUEUE}-poison`).map(({ text }) => JSON.parse(text).key);
        for (const key of ["a", "b", "c"]) assert.ok(applied.has(key) || poison.includes(key), key);
        assert.deepEqual(queues.contents(QUEUE), []);
      },
      runs: schedules(500),
    });
  });
});
