import { reasonOf, tableError } from "../errors.ts";
import { isRefusal, PortError, TIMED_OUT } from "../ports/port-error.ts";
import type { Clock, Random } from "./clock.ts";

export interface RetryOptions {
  /** Waits in milliseconds, or the name of a schedule. */
  readonly schedule?: readonly number[] | "patient" | "fast";
  /** Give up when the next wait would end later than this after the first attempt. */
  readonly deadlineMs?: number;
}

const SCHEDULES = { patient: [2000, 4000, 10_000, 30_000], fast: [50, 200, 800] };
const JITTER = 0.2;
/** Retries may make up a tenth of the requests; a short burst is allowed before that bites. */
const BUDGET_SHARE = 0.1;
const BUDGET_MAX = 20;
const SERVER_FAULT_RETRIES_MAX = 2;

/** What an outcome allows: the schedule, the same twice at most, or after one immediate repeat. */
type Retryable = "scheduled" | "twice" | "at once";

/** By status; 0 when no answer came. */
const RETRYABLE: Readonly<Record<number, Retryable>> = {
  0: "at once",
  408: "scheduled",
  429: "scheduled",
  500: "twice",
  502: "twice",
  503: "scheduled",
  504: "scheduled",
};

/** Undefined for what may not be repeated. */
function classify(error: unknown): Retryable | undefined {
  if (!(error instanceof PortError)) return undefined;
  return error.code === TIMED_OUT ? "scheduled" : RETRYABLE[error.status];
}

/**
 * Calls `attempt` with 1, 2, … until it succeeds or may not be repeated.
 * @throws throttled when the schedule, the time or the budget is used up; the signal's reason when
 * that ends a wait; else what `attempt` threw.
 */
export type Retry = <Result>(
  attempt: (count: number) => Promise<Result>,
  untilMs?: number,
  signal?: AbortSignal,
) => Promise<Result>;

/** Repeats what may succeed, never what cannot; one for each endpoint, for it holds the budget. */
export function retrying(
  clock: Clock,
  random: Random,
  { schedule = "patient", deadlineMs = Number.POSITIVE_INFINITY }: RetryOptions = {},
): Retry {
  const waits = typeof schedule === "string" ? SCHEDULES[schedule] : schedule;
  let budget = BUDGET_MAX;
  return async (attempt, untilMs = Number.POSITIVE_INFINITY, signal) => {
    const latest = Math.min(untilMs, clock.now() + deadlineMs);
    budget = Math.min(BUDGET_MAX, budget + BUDGET_SHARE);
    let waited = 0;
    for (let count = 1; ; count++) {
      try {
        return await attempt(count);
      } catch (error) {
        const retryable = classify(error);
        const isEnough = retryable === "twice" && count > SERVER_FAULT_RETRIES_MAX;
        if (!retryable || isEnough) throw error;
        let waitMs = 0;
        if (retryable !== "at once" || count > 1) {
          const planned = waits[waited++];
          if (planned === undefined) throw throttled(count, error);
          const retryAfterMs = error instanceof PortError ? (error.retryAfterMs ?? 0) : 0;
          waitMs = Math.max(planned * (1 + JITTER * (2 * random() - 1)), retryAfterMs);
        }
        const tooLate = clock.now() + waitMs > latest;
        if (tooLate || budget < 1) throw throttled(count, error);
        budget--;
        if (waitMs > 0) await clock.sleep(waitMs, signal);
      }
    }
  };
}

function throttled(attempts: number, cause: unknown): Error {
  const unreachable = isRefusal(cause, 0) && {
    remedy: "see that the endpoint is up, and can be reached from here.",
  };
  return tableError(
    "throttled",
    `Gave up after ${attempts} attempts: ${reasonOf(cause)}`,
    { attempts },
    { cause, ...unreachable },
  );
}
