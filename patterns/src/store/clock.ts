export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Longer timers fire at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Time, injected so that tests control it. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after `ms`, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Like `sleep`, for background work: a test's clock advances for a sleep, never for an alarm. */
  alarm(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A number from 0 (included) to 1 (excluded). */
export type Random = () => number;

export const systemClock: Clock = { now: Date.now, sleep, alarm: sleep };

/**
 * Whether something read at `readAtMs` is less than `keptMs` old. If the clock was set back, its age is unknown
 * and it counts as stale.
 */
export function isFresh(clock: Clock, readAtMs: number, keptMs: number): boolean {
  const ageMs = clock.now() - readAtMs;
  return ageMs >= 0 && ageMs < keptMs;
}

/** The same clock, except that its sleeps also end when the signal is aborted. */
export function awakenedBy(clock: Clock, signal: AbortSignal): Clock {
  return {
    now: () => clock.now(),
    sleep: (ms, own) => clock.sleep(ms, own ? AbortSignal.any([own, signal]) : signal),
    alarm: (ms, own) => clock.alarm(ms, own),
  };
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return unlessAborted((done) => {
    const timer = setTimeout(done, Math.min(ms, TIMER_MS_MAX));
    return () => clearTimeout(timer);
  }, signal);
}

/** Everything that waits on one signal. It shares one listener, since Node reports more than ten as a leak. */
class Waiting extends Set<() => void> {
  handleEvent(): void {
    for (const abort of this) abort();
  }
}

const waitingFor = new WeakMap<AbortSignal, Waiting>();

/**
 * Resolves when `start` calls `done`. `start` returns a function that cancels what it began.
 * @throws the signal's reason, once it is aborted.
 */
export function unlessAborted(
  start: (done: () => void) => () => unknown,
  signal: AbortSignal | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const waiting = (signal && waitingFor.get(signal)) ?? new Waiting();
    const stop = start(() => {
      waiting.delete(abort);
      if (waiting.size === 0) signal?.removeEventListener("abort", waiting);
      resolve();
    });
    const abort = () => {
      stop();
      reject(signal?.reason);
    };
    waiting.add(abort);
    if (!signal) return;
    waitingFor.set(signal, waiting);
    signal.addEventListener("abort", waiting);
  });
}
