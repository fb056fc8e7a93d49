import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CallTime } from "./call-time.ts";
import { CALL_MS_MAX, EngineError } from "./engine.ts";

describe("The time of a call", () => {
  it("is the same when the clock is set ahead or back during the call", () => {
    for (const setTo of [1e12, -1e12]) {
      const clock = { at: 0, ms: 500, now: () => clock.at, elapsed: () => clock.ms };
      const time = new CallTime(clock);
      clock.at = setTo;
      clock.ms += CALL_MS_MAX;
      time.assertLeft();
      clock.ms += 1;
      assert.throws(() => time.assertLeft(), isUnavailable);
    }
  });

  it("is measured by now() on a clock without elapsed()", () => {
    let now = 0;
    const time = new CallTime({ now: () => now });
    now = CALL_MS_MAX;
    time.assertLeft();
    now++;
    assert.throws(() => time.assertLeft(), isUnavailable);
  });
});

function isUnavailable(error: unknown): boolean {
  return error instanceof EngineError && error.code === "Unavailable";
}
