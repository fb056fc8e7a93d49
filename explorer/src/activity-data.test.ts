import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pathOf, quantileOf, seriesOf, totalOf } from "./activity-data.ts";

describe("The activity", () => {
  const slot = (begin: number, requests: number, step: number) => {
    const durations = new Array<number>(100).fill(0);
    durations[step] = requests;
    return {
      ...{ begin, end: begin + 10_000, requests, durations, operations: { Get: requests } },
      ...{
        errors: {},
        entitiesRead: 10,
        entitiesReturned: 1,
        entitiesWritten: 0,
        flushes: 2,
        commits: 6,
      },
    };
  };

  it("knows where a share of the requests was answered, within a fifth", () => {
    const mixed = totalOf([slot(0, 90, 40), slot(10_000, 10, 52)])!;
    assert.equal(mixed.requests, 100);
    assert.deepEqual(mixed.operations, { Get: 100 });
    assert.ok(Math.abs(quantileOf(mixed, 0.5)! - 1.1) < 0.2);
    assert.ok(Math.abs(quantileOf(mixed, 0.99)! - 8.9) < 1.8);
    assert.equal(quantileOf({ durations: [0, 0] }, 0.5), undefined);
    assert.equal(totalOf([]), undefined);
  });

  it("draws steps with gaps where nothing was counted, cut to the time that is shown", () => {
    const slots = [slot(0, 10, 1), slot(10_000, 20, 1), slot(30_000, 40, 1)];
    const { steps } = seriesOf("requests", slots, ({ requests }, seconds) => requests / seconds);
    assert.equal(pathOf(steps, 0, 40_000, 4), "M0 75H250V50H500M750 0H1000");
    assert.equal(pathOf(steps, 15_000, 25_000, 2), "M0 0H500");
    assert.equal(seriesOf("none", slots, () => undefined).steps.length, 0);
  });
});
