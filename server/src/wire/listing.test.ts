import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { describe, it } from "node:test";
import { printEntries } from "./listing.ts";

describe("The entries of a listing", () => {
  it("are printed in their order, and let the event loop turn", async () => {
    let turns = 0;
    let isPrinting = true;
    const turn = () => {
      turns++;
      if (isPrinting) setImmediate(turn);
    };
    setImmediate(turn);
    const entries = Array.from({ length: 5 }, (_, i) => i);
    const printed = await printEntries(entries, (entry) => {
      const until = performance.now() + 10;
      while (performance.now() < until);
      return `${entry};`;
    });
    isPrinting = false;
    assert.equal(printed, "0;1;2;3;4;");
    assert.ok(turns >= entries.length, `${turns}`);
  });
});
