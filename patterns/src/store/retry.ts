import { reasonOf, tableError, validationFailed } from "../errors.ts";
import { isPushback, isRefusal, isTooLate, NO_CONNECTION } from "../ports/port-error.ts";
import type { Clock, Random } from "./clock.ts";

export interface RetryOptions {
  /** Waits in milliseconds, or the name of a schedule. */
  readonly schedule?: readonly number[] | "patient" | "fast";
  /** Give up when the next wait would end later than this after the first attempt. */
  readonly deadlineMs?: number;
}

const SCHEDULES = { patient: [2000, 4000, 10_000, 30_000], fast: [50, 200, 800] };
const JITTER = 0.2;
/** Retries may make up a tenth of the requests, after a short burst. */
const BUDGET_SHARE = 0.1;
const BUDGET_MAX = 20;
const SERVER_FAULT_RETRIES_MAX = 2;
/** How long a request is repeated to a server that has never been reached: it may not exist. */
const FIRST_MS = 2000;

/** No answer, or none in time: retried as often as the schedule allows, like throttling. */
const UNANSWERED = [0, 408, 504];
/** Retried twice at most. */
const SERVER_FAULTS = [500, 502];

/**
 * Calls `attempt` with 1, 2, … until it succeeds or must not be retried.
 * @throws throttled when the schedule, the time or the budget is exhausted; the signal's reason when that ends
 * a wait; otherwise what `attempt` threw.
 */
export type Retry = <Result>(
  attempt: (count: number) => Promise<Result>,
  untilMs?: number,
  signal?: AbortSignal,
) => Promise<Result>;

/**
 * Retries only what may succeed. One for each service, because it holds the retry budget.
 * @throws validation-failed for an invalid schedule, which would otherwise surface only at the first retry.
 */
export function retrying(
  clock: Clock,
  random: Random,
  { schedule = "patient", deadlineMs = Number.POSITIVE_INFINITY }: RetryOptions = {},
): Retry {
  const waits = typeof schedule === "string" ? SCHEDULES[schedule] : schedule;
  // In plain JavaScript both may be anything.
  if (!(deadlineMs >= 0 && waits?.every?.((ms) => ms >= 0))) {
    throw validationFailed(
      "The retry",
      "schedule",
      `${schedule} within ${deadlineMs} ms is invalid`,
    );
  }
  let budget = BUDGET_MAX;
  let isReached = false;
  return async (attempt, untilMs = Number.POSITIVE_INFINITY, signal) => {
    const begunAtMs = clock.now();
    const latest = Math.min(untilMs, begunAtMs + deadlineMs);
    budget = Math.min(BUDGET_MAX, budget + BUDGET_SHARE);
    let waited = 0;
    for (let count = 1; ; count++) {
      try {
        const result = await attempt(count);
        isReached = true;
        return result;
      } catch (error) {
        const isUnconnected = isRefusal(error, 0) && NO_CONNECTION.test(error.code);
        isReached ||= !isUnconnected;
        const isRepeated =
          isPushback(error) ||
          isRefusal(error, ...UNANSWERED) ||
          (isRefusal(error, ...SERVER_FAULTS) && count <= SERVER_FAULT_RETRIES_MAX);
        if (!isRepeated) throw error;
        const isAtOnce = error.status === 0 && count === 1;
        const planned = isAtOnce ? 0 : (waits[waited++] ?? Number.NaN);
        const waitMs = Math.max(
          planned * (1 + JITTER * (2 * random() - 1)),
          error.retryAfterMs ?? 0,
        );
        // After the end of the schedule the wait is NaN, which is never in time.
        const endMs = isReached ? latest : Math.min(latest, begunAtMs + FIRST_MS);
        const isInTime = !isTooLate(error) && clock.now() + waitMs <= endMs;
        if (!isInTime || budget < 1) throw throttled(count, error, isInTime);
        budget--;
        if (waitMs > 0) await clock.sleep(waitMs, signal);
      }
    }
  };
}

function throttled(attempts: number, cause: unknown, isInTime: boolean): Error {
  const unreachable = isRefusal(cause, 0) && {
    remedy: "check that the endpoint is up and reachable.",
  };
  const many = isInTime ? ", because too many requests are retries" : "";
  return tableError(
    "throttled",
    `Gave up after ${attempts} attempt${attempts === 1 ? "" : "s"}${many}: ${reasonOf(cause)}`,
    { attempts },
    { cause, ...unreachable },
  );
}
