import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { silence } from "./answer.ts";

const MINUTE_MS = 60_000;

describe("a request that gets no answer", () => {
  beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
  afterEach(() => mock.timers.reset());

  it("is given up after a minute", () => {
    const { signal } = silence({});
    mock.timers.tick(MINUTE_MS - 1);
    assert.equal(signal.aborted, false);
    mock.timers.tick(1);
    assert.equal(signal.aborted, true);
  });

  it("is given as long again for each MiB that it carries", () => {
    const { signal } = silence({ answerWithinMs: 1000 }, 4 * 2 ** 20);
    mock.timers.tick(4999);
    assert.equal(signal.aborted, false);
    mock.timers.tick(1);
    assert.equal(signal.aborted, true);
  });

  it("is given all the time it takes while something is heard", () => {
    const { signal, heard } = silence({ answerWithinMs: 1000 });
    for (let i = 0; i < 10; i++) {
      mock.timers.tick(999);
      heard();
    }
    assert.equal(signal.aborted, false);
    mock.timers.tick(1000);
    assert.equal(signal.aborted, true);
  });

  it("is given as long as a timer can run where more is asked for", (test) => {
    const timer = test.mock.method(globalThis, "setTimeout");
    silence({ answerWithinMs: Number.POSITIVE_INFINITY });
    assert.equal(timer.mock.calls[0]?.arguments[1], 2 ** 31 - 1);
  });

  it("is not given up after its end", () => {
    const { signal, heard, end } = silence({});
    heard();
    end();
    mock.timers.tick(2 * MINUTE_MS);
    assert.equal(signal.aborted, false);
  });
});
