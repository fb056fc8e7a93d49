import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PortError } from "../ports/port-error.ts";
import { FakeClock } from "../testing/fake-clock.ts";
import { inSlots, mapBounded, Slots } from "./limit.ts";

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
});

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
