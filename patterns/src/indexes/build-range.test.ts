import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeClock } from "../testing.ts";
import { Pace } from "./build-range.ts";
import { MINUTE } from "./test-life-cycle.ts";

describe("the pace of a build", () => {
  it("goes on at its rate when the clock is set back", () => {
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
});
