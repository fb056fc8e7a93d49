import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { PortError } from "../ports/port-error.ts";
import { FakeClock } from "../testing/fake-clock.ts";
import { histories } from "../testing/test-histories.ts";
import type { PortCall } from "./layer.ts";
import { inSlots, limiter, mapBounded, Slots } from "./limit.ts";

const busy = () => new PortError("busy", { status: 503, code: "ServerBusy" });

/** How many run at once when more want to run than may. */
async function width(slots: Slots): Promise<number> {
  let running = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setImmediate(resolve));
    running--;
  };
  await Promise.all(Array.from({ length: 100 }, () => inSlots([slots], work)));
  return most;
}

describe("slots", () => {
  it("start at eight and double every two seconds, up to the limit", async () => {
    const clock = new FakeClock();
    const slots = new Slots(50, clock);
    const widths: number[] = [];
    for (let i = 0; i < 5; i++) {
      widths.push(await width(slots));
      clock.advance(2000);
    }
    assert.deepEqual(widths, [8, 16, 32, 50, 50]);
    assert.equal(await width(new Slots(3, clock)), 3);
  });

  it("halve when the service pushes back, then grow by one each quiet second", async () => {
    const clock = new FakeClock();
    const slots = new Slots(64, clock);
    clock.advance(20_000);
    assert.equal(await width(slots), 64);
    await assert.rejects(inSlots([slots], () => Promise.reject(busy())));
    assert.equal(await width(slots), 32);
    clock.advance(3000);
    assert.equal(await width(slots), 35);
    for (let i = 0; i < 10; i++)
      await assert.rejects(inSlots([slots], () => Promise.reject(busy())));
    assert.equal(await width(slots), 1);
  });

  it("grow on when the clock is set back", async () => {
    const clock = new FakeClock();
    const slots = new Slots(16, clock);
    clock.advance(-3_600_000);
    assert.equal(await width(slots), 8);
    clock.advance(2000);
    assert.equal(await width(slots), 16);
  });

  it("ignore other refusals, and run work in order", async () => {
    const slots = new Slots(1, new FakeClock());
    const refusal = new PortError("taken", { status: 409, code: "EntityAlreadyExists" });
    const order: number[] = [];
    await Promise.allSettled(
      [1, 2, 3].map((i) =>
        inSlots([slots], async () => {
          order.push(i);
          throw refusal;
        }),
      ),
    );
    assert.deepEqual(order, [1, 2, 3]);
  });

  it("go to work that waits before new work, when their number has grown", async () => {
    const clock = new FakeClock();
    const slots = new Slots(64, clock);
    const begun: number[] = [];
    const begin = (i: number) => {
      void inSlots([slots], () => {
        begun.push(i);
        return new Promise(() => {});
      });
    };
    for (let i = 0; i < 20; i++) begin(i);
    clock.advance(2000);
    begin(20);
    await everything();
    assert.deepEqual(
      begun,
      Array.from({ length: 16 }, (_, i) => i),
    );
  });
});

describe("the limits of a database", () => {
  it("do not fall when a signal is aborted because of a throttled request", async () => {
    const [partition, account] = [new Slots(4, new FakeClock()), new Slots(1, new FakeClock())];
    const controller = new AbortController();
    let finish = () => {};
    const first = inSlots([account], () => new Promise<void>((resolve) => (finish = resolve)));
    const work = async () => {};
    const waiting = [1, 2, 3].map(() => inSlots([partition, account], work, controller.signal));
    controller.abort(busy());
    await Promise.allSettled(waiting);
    finish();
    await first;
    assert.deepEqual([await width(partition), await width(account)], [4, 1]);
  });

  it("hold for a partition whose requests were aborted before they began", async () => {
    const limits = limiter(new FakeClock(), { partition: 1 });
    const aborted = AbortSignal.abort();
    const running: number[] = [];
    const begin = (i: number, signal?: AbortSignal) =>
      limits(signal)(readOf("p"), () => {
        running.push(i);
        return new Promise(() => {});
      }).catch(() => undefined);
    const ended = [begin(1, aborted)];
    queueMicrotask(() => void begin(2));
    ended.push(begin(3, aborted));
    await Promise.all(ended);
    void begin(4);
    await everything();
    assert.deepEqual(running, [2]);
  });

  it("are never exceeded, lose no slot, and serve requests in the order of their arrival", async () => {
    const signal = fc.option(fc.nat(2), { nil: undefined });
    const step = fc.oneof(
      // Partition 0 stands for requests that name none. The end of a request takes a few microtasks, in which
      // others may begin.
      { arbitrary: fc.record({ ask: fc.nat(2), signal, ticks: fc.nat(4) }), weight: 4 },
      { arbitrary: fc.record({ end: fc.nat(30), isBusy: fc.boolean() }), weight: 3 },
      fc.record({ abort: fc.nat(2) }),
      fc.record({ waitMs: fc.integer({ min: -5000, max: 5000 }) }),
      { arbitrary: fc.constant("settle" as const), weight: 2 },
    );
    const limit = fc.record({
      account: fc.integer({ min: 1, max: 12 }),
      partition: fc.integer({ min: 1, max: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(
        limit,
        fc.array(step, { minLength: 60, maxLength: 80 }),
        async (limit, steps) => {
          const traffic = new Traffic(limit);
          for (const step of steps) {
            if (step === "settle") await traffic.settle();
            else if ("ask" in step) void traffic.ask(step.ask, step.signal, step.ticks);
            else if ("end" in step) traffic.end(step.end, step.isBusy ? busy() : undefined);
            else if ("abort" in step) traffic.abort(step.abort);
            else traffic.clock.advance(step.waitMs);
          }
          await traffic.finish();
          // After a quiet time, every slot is free again.
          traffic.clock.advance(1_000_000);
          for (let i = 0; i < 20; i++) void traffic.ask(100 + i);
          await traffic.settle();
          assert.equal(traffic.width, limit.account);
          await traffic.finish();
          for (let i = 0; i < 20; i++) void traffic.ask(1);
          await traffic.settle();
          assert.equal(traffic.width, Math.min(limit.account, limit.partition));
          await traffic.finish();
        },
      ),
      histories(200),
    );
  });
});

interface Asked {
  readonly partition: number;
  state: "waiting" | "running" | "over";
  end(error?: Error): void;
}

/** Requests through the limits, each of which runs until it is ended. */
class Traffic {
  readonly clock = new FakeClock();
  readonly #limit: { readonly account: number; readonly partition: number };
  readonly #layerOf: ReturnType<typeof limiter>;
  readonly #signals = [0, 1, 2].map(() => new AbortController());
  readonly #asked: Asked[] = [];
  readonly #answers: Promise<unknown>[] = [];

  constructor(limit: { readonly account: number; readonly partition: number }) {
    this.#limit = limit;
    this.#layerOf = limiter(this.clock, limit);
  }

  get width(): number {
    return this.#running().length;
  }

  async ask(partition: number, signal?: number, ticks = 0): Promise<void> {
    for (let i = 0; i < ticks; i++) await undefined;
    const one: Asked = { partition, state: "waiting", end() {} };
    const count = this.#asked.push(one);
    const run = () => {
      assert.equal(one.state, "waiting");
      if (count % 7 === 0) throw new Error("thrown before there is a promise");
      one.state = "running";
      assert.ok(this.width <= this.#limit.account);
      const ofPartition = this.#running().filter((other) => other.partition === partition);
      assert.ok(partition === 0 || ofPartition.length <= this.#limit.partition);
      return new Promise<void>((resolve, reject) => {
        one.end = (error) => {
          one.state = "over";
          if (error) reject(error);
          else resolve();
        };
      });
    };
    const limits = this.#layerOf(signal === undefined ? undefined : this.#signals[signal]?.signal);
    const call = partition === 0 ? LISTING : readOf(`${partition}`);
    const answer = limits(call, run).catch((error: unknown) => {
      one.state = "over";
      if (error instanceof assert.AssertionError) throw error;
    });
    // A failed assertion is reported at the end.
    answer.catch(() => undefined);
    this.#answers.push(answer);
  }

  end(which: number, error?: Error): void {
    const running = this.#running();
    running[which % running.length]?.end(error);
  }

  abort(signal: number): void {
    this.#signals[signal]?.abort(busy());
    this.#signals[signal] = new AbortController();
  }

  async settle(): Promise<void> {
    await everything();
    const unnamed = this.#asked.filter(({ partition }) => partition === 0);
    const firstWaiting = unnamed.findIndex(({ state }) => state === "waiting");
    const lastRunning = unnamed.findLastIndex(({ state }) => state === "running");
    assert.ok(firstWaiting < 0 || lastRunning < firstWaiting, "overtaken");
  }

  /** Ends all requests that run and those that begin then. */
  async finish(): Promise<void> {
    for (await this.settle(); this.width > 0; await this.settle()) this.end(0);
    await Promise.all(this.#answers);
  }

  #running(): Asked[] {
    return this.#asked.filter(({ state }) => state === "running");
  }
}

describe("bounded parallelism", () => {
  it("returns results in the order of the items, whichever ends first", async () => {
    const results = await mapBounded([3, 1, 2], 2, async (item, i) => {
      for (let n = 0; n < item; n++) await Promise.resolve();
      return `${i}:${item}`;
    });
    assert.deepEqual(results, ["0:3", "1:1", "2:2"]);
    assert.deepEqual(await mapBounded([], 4, async () => 1), []);
    assert.deepEqual(await mapBounded(["a"], 4, async (item, i) => `${i}:${item}`), ["0:a"]);
  });

  it("accepts results that are not promises", async () => {
    const results = await mapBounded<number, number | string>([3, 1, 2], 2, (item) =>
      item > 1 ? item : asks(item),
    );
    assert.deepEqual(results, [3, "asked 1", 2]);
    assert.deepEqual(await mapBounded([3], 2, (item) => item), [3]);
  });

  it("starts nothing more after a failure, and waits for work in flight", async () => {
    const begun: number[] = [];
    const ended: number[] = [];
    const work = async (item: number) => {
      begun.push(item);
      if (item === 2) throw new Error("two");
      for (let n = 0; n < 5; n++) await Promise.resolve();
      ended.push(item);
    };
    await assert.rejects(mapBounded([1, 2, 3], 2, work), /two/);
    assert.deepEqual([begun, ended], [[1, 2], [1]]);
    const refuse = () => {
      throw new Error("at once");
    };
    await assert.rejects(mapBounded([1], 2, refuse), /at once/);
    await assert.rejects(mapBounded([1, 2], 2, refuse), /at once/);
  });
});

async function asks(item: number): Promise<string> {
  return `asked ${item}`;
}

const LISTING: PortCall = { port: "tables", method: "listTables", args: [{}] };

function readOf(partitionKey: string): PortCall {
  return { port: "tables", method: "get", args: ["T", { partitionKey, rowKey: "r" }] };
}

/** Runs everything that is ready to run. */
function everything(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
