import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeClock } from "../testing.ts";
import { Pace } from "./build-range.ts";
import { MINUTE } from "./test-life-cycle.ts";

describe("the pace of a build", () => {
  it("keeps its rate when the clock is set back", () => {
    const clock = new FakeClock();
    const pace = new Pace(clock, 400);
    pace.begin(200);
    clock.advance(-60 * MINUTE);
    assert.equal(pace.waitMs(), 500);
    pace.begin(200);
    assert.equal(pace.waitMs(), 1000);
    clock.advance(1500);
    assert.equal(pace.waitMs(), 0);
  });

  it("halves when the service pushes back, then grows by a tenth with each page, up to the full rate", () => {
    const pace = new Pace(new FakeClock(), 400);
    const waitFor = (entities: number) => {
      const before = pace.waitMs();
      pace.begin(entities);
      return pace.waitMs() - before;
    };
    assert.equal(waitFor(400), 1000);
    assert.ok(pace.slower());
    assert.equal(waitFor(400), 2000);
    pace.faster();
    assert.ok(Math.abs(waitFor(440) - 2000) < 1e-6);
    for (let page = 0; page < 8; page++) pace.faster();
    assert.equal(waitFor(400), 1000);
    for (let time = 0; time < 4; time++) assert.ok(pace.slower());
    assert.equal(pace.slower(), false);
  });
});
