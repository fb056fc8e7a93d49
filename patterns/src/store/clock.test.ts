import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "./clock.ts";

describe("the system clock", () => {
  it("sleeps as long as a timer can if asked to sleep longer", async (test) => {
    const timer = test.mock.method(globalThis, "setTimeout");
    const stop = new AbortController();
    const slept = [2 ** 31, Number.POSITIVE_INFINITY].map((ms) =>
      systemClock.sleep(ms, stop.signal),
    );
    const asked = timer.mock.calls.map((call) => call.arguments[1]);
    stop.abort();
    await Promise.allSettled(slept);
    assert.deepEqual(asked, [2 ** 31 - 1, 2 ** 31 - 1]);
  });
});
