import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, isTableError } from "../index.ts";
import { PortError } from "../ports/port-error.ts";
import { FakeClock } from "../testing/fake-clock.ts";
import { memory } from "../testing/memory.ts";
import { type RetryOptions, retrying } from "./retry.ts";

const halfway = () => 0.5; // No jitter.

async function waits(outcomes: readonly PortError[], options: RetryOptions = {}) {
  const clock = new FakeClock();
  const retry = retrying(clock, halfway, options);
  const started = clock.now();
  const times: number[] = [];
  const outcome = await retry(async (count) => {
    times.push(clock.now() - started);
    const failure = outcomes[count - 1];
    if (failure) throw failure;
    return "done";
  }).catch((error) => (isTableError(error) ? error.code : error.status));
  return [outcome, times];
}

const answer = (status: number, code = "Code", retryAfterMs?: number) =>
  new PortError(code, { status, code, ...(retryAfterMs !== undefined && { retryAfterMs }) });
const times = (count: number, error: PortError) => Array.from({ length: count }, () => error);

describe("the retry schedule", () => {
  it("refuses an invalid schedule or deadline when a database is connected", () => {
    const none = [Number.NaN, -1];
    for (const retry of [
      ...["slow", "toString", 5, ["1000", "x"], {}].map((schedule) => ({ schedule })),
      ...none.flatMap((ms) => [{ schedule: [1, ms] }, { deadlineMs: ms }]),
    ] as RetryOptions[]) {
      assert.throws(
        () => connect({ ...memory(), retry }),
        (error) => isTableError(error, "validation-failed"),
      );
    }
  });

  it("gives up within two seconds on a server that was never reached, and waits for one that was", async () => {
    const unreached = answer(0, "ECONNREFUSED");
    assert.deepEqual(await waits(times(9, unreached), { schedule: "fast" }), [
      "throttled",
      [0, 0, 50, 250, 1050],
    ]);
    assert.deepEqual(await waits(times(9, unreached)), ["throttled", [0, 0, 2000]]);
    const [, all] = await waits([answer(503), ...times(9, unreached)]);
    assert.deepEqual(all, [0, 2000, 6000, 16_000, 46_000]);
  });

  it("waits 2, 4, 10 and 30 seconds for a busy service, then gives up", async () => {
    assert.deepEqual(await waits(times(9, answer(503))), [
      "throttled",
      [0, 2000, 6000, 16_000, 46_000],
    ]);
    assert.deepEqual(await waits([answer(500, "OperationTimedOut")]), ["done", [0, 2000]]);
  });

  it("retries a failed connection immediately, then by the schedule", async () => {
    assert.deepEqual(await waits(times(2, answer(0))), ["done", [0, 0, 2000]]);
  });

  it("suggests a check of the endpoint if it is unreachable, and a lower rate if it is busy", async () => {
    const failOf = (error: PortError) =>
      retrying(new FakeClock(), halfway, { schedule: [] })(async () => {
        throw error;
      });
    await assert.rejects(
      failOf(answer(0, "ECONNREFUSED")),
      /Remedy: check that the endpoint is up/,
    );
    await assert.rejects(failOf(answer(503)), /after 1 attempt: Code\n {2}Remedy: lower the rate/);
  });

  it("retries other server faults twice", async () => {
    assert.deepEqual(await waits(times(9, answer(500))), [500, [0, 2000, 6000]]);
    assert.deepEqual(await waits(times(9, answer(502))), [502, [0, 2000, 6000]]);
  });

  it("never retries a request that cannot succeed", async () => {
    for (const status of [400, 401, 403, 404, 405, 409, 411, 412, 413, 414, 501]) {
      assert.deepEqual(await waits([answer(status)]), [status, [0]]);
    }
  });

  it("waits as long as the service asks for", async () => {
    assert.deepEqual(await waits([answer(429, "TooManyRequests", 7000)]), ["done", [0, 7000]]);
  });

  it("is faster with schedule fast, and ends at the deadline", async () => {
    assert.deepEqual(await waits(times(9, answer(503)), { schedule: "fast" }), [
      "throttled",
      [0, 50, 250, 1050],
    ]);
    assert.deepEqual(await waits(times(9, answer(503)), { deadlineMs: 5000 }), [
      "throttled",
      [0, 2000],
    ]);
  });

  it("stops retrying when retries make up too much of the traffic", async () => {
    const retry = retrying(new FakeClock(), halfway);
    let attempts = 0;
    const storm = () =>
      retry(async (): Promise<never> => {
        attempts++;
        throw answer(503);
      });
    for (let i = 0; i < 100; i++) await assert.rejects(storm);
    assert.ok(attempts < 100 + 20 + 100 * 0.1 + 1, `${attempts} attempts for 100 requests`);
    await assert.rejects(storm, /attempts?, because too many requests are retries: Code/);
  });
});
