import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../clock.ts";
import { CALL_MS_MAX, EngineError } from "./engine.ts";
import { Turns } from "./turns.ts";

describe("Turns", () => {
  it("lets tasks of one key run one after the other, in order, even when one fails", async () => {
    const turns = new Turns(systemClock);
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

  it("lets nobody in beside the second when the first has ended", async () => {
    const turns = new Turns(systemClock);
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

  it("lets tasks of different keys run at once", async () => {
    const turns = new Turns(systemClock);
    let release = () => {};
    const blocked = turns.take("a", () => new Promise<void>((resolve) => (release = resolve)));
    assert.equal(await turns.take("b", async () => "b ran"), "b ran");
    release();
    await blocked;
  });

  it("refuses those that waited longer than a call may take, and goes on with who comes then", async () => {
    let now = 0;
    const turns = new Turns({ now: () => now });
    const began: string[] = [];
    /** A task that ends only by its time-out. */
    const stalled = (name: string) => async () => {
      began.push(name);
      await Promise.resolve();
      now += CALL_MS_MAX;
      throw new Error(name);
    };
    const names = ["first", "second", "third", "fourth"];
    const results = await Promise.allSettled(names.map((each) => turns.take("k", stalled(each))));
    // The second waited exactly as long as it may.
    assert.deepEqual(began, ["first", "second"]);
    for (const result of results.slice(2)) {
      assert.ok(result.status === "rejected");
      assert.ok(result.reason instanceof EngineError && result.reason.code === "Unavailable");
    }
    assert.equal(await turns.take("k", async () => "fifth ran"), "fifth ran");
  });
});
