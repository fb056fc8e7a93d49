import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eachBounded } from "./each-bounded.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("eachBounded", () => {
  it("processes all items, four at a time", async () => {
    const items = Array.from({ length: 21 }, (_, i) => i);
    const done: number[] = [];
    let underWay = 0;
    let most = 0;
    await eachBounded(items, async (item) => {
      most = Math.max(most, ++underWay);
      await turn();
      underWay--;
      done.push(item);
    });
    assert.deepEqual([done, most], [items, 4]);
    await eachBounded([], () => assert.fail());
  });

  it("processes items one at a time if the bound is 1", async () => {
    const log: string[] = [];
    const work = async (item: string) => {
      log.push(item);
      await turn();
      log.push(item);
    };
    await eachBounded("abc", work, 1);
    assert.equal(log.join(""), "aabbcc");
  });

  it("fails if one item fails, after all others have been processed", async () => {
    const done: number[] = [];
    const work = async (item: number) => {
      if (item === 1) throw new Error("broke off");
      await turn();
      done.push(item);
    };
    await assert.rejects(eachBounded([0, 1, 2, 3, 4, 5], work), /broke off/);
    assert.deepEqual(done.sort(), [0, 2, 3, 4, 5]);
  });
});
