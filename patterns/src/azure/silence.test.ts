import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { silences } from "./silence.ts";

const MINUTE_MS = 60_000;
/** How much later than its limit of a second a request may be given up. */
const TENTH_MS = 100;

describe("a request that gets no answer", () => {
  beforeEach(() => mock.timers.enable({ apis: ["setInterval"] }));
  afterEach(() => mock.timers.reset());

  it("is aborted after a minute", () => {
    const { signal } = silences({})();
    mock.timers.tick(MINUTE_MS);
    assert.equal(signal.aborted, false);
    mock.timers.tick(MINUTE_MS / 10);
    assert.equal(signal.aborted, true);
  });

  it("has its own minute, even if other requests began earlier", () => {
    const silence = silences({});
    silence();
    for (let i = 0; i < 10; i++) {
      mock.timers.tick(MINUTE_MS - 1);
      const { signal, end } = silence();
      mock.timers.tick(MINUTE_MS);
      assert.equal(signal.aborted, false);
      mock.timers.tick(MINUTE_MS / 10);
      assert.equal(signal.aborted, true);
      end();
    }
  });

  it("has the limit once more for each MiB it sends", () => {
    const { signal } = silences({ answerWithinMs: 1000 })(4 * 2 ** 20);
    mock.timers.tick(5000);
    assert.equal(signal.aborted, false);
    mock.timers.tick(TENTH_MS);
    assert.equal(signal.aborted, true);
  });

  it("is not aborted while data keeps arriving", () => {
    const { signal, heard } = silences({ answerWithinMs: 1000 })();
    for (let i = 0; i < 10; i++) {
      mock.timers.tick(1000);
      heard();
    }
    assert.equal(signal.aborted, false);
    mock.timers.tick(1000 + TENTH_MS);
    assert.equal(signal.aborted, true);
  });

  it("is checked at the longest interval a timer allows if the limit exceeds it", (test) => {
    const timer = test.mock.method(globalThis, "setInterval");
    silences({ answerWithinMs: Number.POSITIVE_INFINITY })();
    assert.equal(timer.mock.calls[0]?.arguments[1], 2 ** 31 - 1);
  });

  it("is not aborted after it has ended", () => {
    const { signal, heard, end } = silences({})();
    heard();
    end();
    mock.timers.tick(2 * MINUTE_MS);
    assert.equal(signal.aborted, false);
  });

  it("passes its signal on to the next request, which has its full limit", () => {
    const silence = silences({ answerWithinMs: 1000 });
    const first = silence(2 ** 20);
    const concurrent = silence();
    assert.notEqual(concurrent.signal, first.signal);
    mock.timers.tick(900);
    first.end(true);
    const next = silence();
    assert.equal(next.signal, first.signal);
    mock.timers.tick(1000);
    assert.deepEqual([concurrent.signal.aborted, next.signal.aborted], [true, false]);
    mock.timers.tick(TENTH_MS);
    assert.equal(next.signal.aborted, true);
  });

  it("does not pass on a signal that was aborted", () => {
    const silence = silences({ answerWithinMs: 1000 });
    const { signal, end } = silence();
    mock.timers.tick(1000 + TENTH_MS);
    assert.equal(signal.aborted, true);
    end(true);
    assert.equal(silence().signal.aborted, false);
  });

  it("does not pass on a signal that its sender may still hold", () => {
    const silence = silences({});
    const { signal, end } = silence();
    end();
    assert.notEqual(silence().signal, signal);
  });

  it("has no timer running while no request is in flight", (test) => {
    const [started, stopped] = [
      test.mock.method(globalThis, "setInterval"),
      test.mock.method(globalThis, "clearInterval"),
    ];
    const silence = silences({ answerWithinMs: 1000 });
    for (let i = 1; i <= 3; i++) {
      for (let n = 0; n < 5; n++) silence().end();
      assert.deepEqual([started.mock.callCount(), stopped.mock.callCount()], [i, i - 1]);
      mock.timers.tick(TENTH_MS);
      assert.equal(stopped.mock.callCount(), i);
    }
  });
});
