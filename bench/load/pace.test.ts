import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Pace } from "./pace.ts";
import { Client } from "./workload.ts";

describe("Pace", () => {
  it("keeps the requested rate over all clients, with gaps of every length", () => {
    const pace = new Pace(4000, 64);
    const client = new Client(3, 1);
    const gaps: number[] = [];
    for (let at = 0; gaps.length < 20_000; ) {
      const next = pace.dueAfter(at, client);
      gaps.push(next - at);
      at = next;
    }
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    assert.ok(Math.abs(mean - 16) < 0.5, `The mean gap is ${mean} ms.`);
    // Exponential gaps: this share of them is shorter than half the mean.
    const short = gaps.filter((gap) => gap < 8).length / gaps.length;
    assert.ok(Math.abs(short - 0.393) < 0.02, `${short} of the gaps are short.`);
  });

  it("measures the latency of a late operation from the time it was due", async () => {
    const pace = new Pace(1_000_000, 1);
    const client = new Client(0, 1);
    const dues: number[] = [];
    for (let operations = 0; operations < 100; operations++) {
      dues.push(await new Promise<number>((begin) => pace.next(client, begin)));
    }
    assert.deepEqual(
      dues,
      dues.toSorted((a, b) => a - b),
    );
    // They were due a microsecond apart, so the clock had passed most of them.
    assert.ok(dues.at(-1)! - dues[0]! < 1, "They were due later than their rate says.");
  });

  it("starts each operation once, and none before it is due", async () => {
    const pace = new Pace(20_000, 8);
    const begun = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const client = new Client(index, 1);
        let early = 0;
        for (let operations = 0; operations < 20; operations++) {
          const due = await new Promise<number>((begin) => pace.next(client, begin));
          if (performance.now() < due) early++;
        }
        return early;
      }),
    );
    assert.deepEqual(begun, new Array(8).fill(0));
  });
});
