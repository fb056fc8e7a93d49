import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../clock.ts";
import { Contention, LOST } from "./contention.ts";
import { CALL_MS_MAX, EngineError } from "./engine.ts";

describe("Contention", () => {
  it("lets all writers try at once, then the losers one at a time, in order", async () => {
    const contention = new Contention(systemClock);
    const log: string[] = [];
    let version = 0;
    /** Commits what was read in the previous turn of the event loop. */
    const attemptOf = (name: string) => async (again: boolean) => {
      const read = version;
      log.push(again ? `${name} again` : name);
      await new Promise((resolve) => setImmediate(resolve));
      if (read !== version) return LOST;
      return ++version;
    };
    const results = await Promise.all(
      ["a", "b", "c", "d"].map((name) => contention.settle("k", attemptOf(name))),
    );
    assert.deepEqual(results, [1, 2, 3, 4]);
    assert.deepEqual(log, ["a", "b", "c", "d", "b again", "c again", "d again"]);
  });

  it("lets one writer try at a time in turns, so that none loses", async () => {
    const contention = new Contention(systemClock);
    let version = 0;
    let lost = 0;
    const attempt = async () => {
      const read = version;
      await new Promise((resolve) => setImmediate(resolve));
      if (read === version) return ++version;
      lost++;
      return LOST;
    };
    await Promise.all(Array.from({ length: 10 }, () => contention.inTurn("k", attempt)));
    assert.equal(version, 10);
    assert.equal(lost, 0);
  });

  it("tells an attempt whether an earlier one of the same turn lost", async () => {
    const contention = new Contention(systemClock);
    const repeats: boolean[] = [];
    await contention.inTurn("k", async (again) => {
      repeats.push(again);
      return repeats.length < 3 ? LOST : "won";
    });
    assert.deepEqual(repeats, [false, true, true]);
  });

  it("does not make writers of other keys wait", async () => {
    const contention = new Contention(systemClock);
    let release = () => {};
    const blocked = contention.inTurn("a", () => new Promise<void>((free) => (release = free)));
    assert.equal(await contention.inTurn("b", async () => "b"), "b");
    release();
    await blocked;
  });

  it("refuses a writer that has been losing for the time of a call", async () => {
    const clock = { at: 0, now: () => clock.at };
    const contention = new Contention(clock);
    let tries = 0;
    const lose = async () => {
      tries++;
      clock.at += CALL_MS_MAX / 2 + 1;
      return LOST;
    };
    await assert.rejects(contention.settle("k", lose), isRefused);
    assert.equal(tries, 2);
    await assert.rejects(contention.inTurn("k", lose), isRefused);
    assert.equal(tries, 4);
  });

  it("refuses writers that waited longer than the time of a call, and serves later ones", async () => {
    const clock = { at: 0, now: () => clock.at };
    const contention = new Contention(clock);
    const began: string[] = [];
    /** An attempt that ends only by its timeout. */
    const stalled = (name: string) => async () => {
      began.push(name);
      await Promise.resolve();
      clock.at += CALL_MS_MAX;
      throw new Error(name);
    };
    const names = ["first", "second", "third", "fourth"];
    const results = await Promise.allSettled(
      names.map((each) => contention.inTurn("k", stalled(each))),
    );
    // The second waited exactly as long as a call may take.
    assert.deepEqual(began, ["first", "second"]);
    for (const result of results.slice(2)) {
      assert.ok(result.status === "rejected" && isRefused(result.reason));
    }
    assert.equal(await contention.inTurn("k", async () => "fifth"), "fifth");
  });
});

function isRefused(error: unknown): boolean {
  return error instanceof EngineError && error.code === "Unavailable";
}
