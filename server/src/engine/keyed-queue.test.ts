import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KeyedQueue } from "./keyed-queue.ts";

describe("Turns", () => {
  it("run the tasks of a key one after the other, in order, even when one fails", async () => {
    const turns = new KeyedQueue();
    const log: string[] = [];
    const task =
      (name: string, fails = false) =>
      async () => {
        log.push(`${name} begins`);
        await Promise.resolve();
        log.push(`${name} ends`);
        if (fails) throw new Error(name);
      };
    const results = await Promise.allSettled([
      turns.take("k", task("first")),
      turns.take("k", task("second", true)),
      turns.take("k", task("third")),
    ]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ["fulfilled", "rejected", "fulfilled"],
    );
    assert.deepEqual(log, [
      "first begins",
      "first ends",
      "second begins",
      "second ends",
      "third begins",
      "third ends",
    ]);
  });

  it("let no third task run during the second when the first has ended", async () => {
    const turns = new KeyedQueue();
    let release = () => {};
    const first = turns.take("k", async () => "first ran");
    const second = turns.take("k", () => new Promise<void>((resolve) => (release = resolve)));
    await first;
    let hasBegun = false;
    const third = turns.take("k", async () => {
      hasBegun = true;
    });
    assert.equal(hasBegun, false);
    release();
    await Promise.all([second, third]);
    assert.equal(hasBegun, true);
  });

  it("run tasks of different keys concurrently", async () => {
    const turns = new KeyedQueue();
    let release = () => {};
    const blocked = turns.take("a", () => new Promise<void>((resolve) => (release = resolve)));
    assert.equal(await turns.take("b", async () => "b ran"), "b ran");
    release();
    await blocked;
  });
});
