export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Longer timers are over at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Time and chance, injected so that a test decides both. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after `ms`, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** The same for work in the background: a test's clock moves on by sleeping, not by alarms. */
  alarm(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A number from 0 (included) to 1. */
export type Random = () => number;

export const systemClock: Clock = { now: Date.now, sleep, alarm: sleep };

/** Whether what was read at `readAtMs` may still be used. A clock that was set back does not tell how old it is. */
export function isFresh(clock: Clock, readAtMs: number, keptMs: number): boolean {
  const ageMs = clock.now() - readAtMs;
  return ageMs >= 0 && ageMs < keptMs;
}

/** The same clock, on which nobody sleeps any more once the signal is aborted. */
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

/** What waits until a signal. One listener for all, for Node takes more than ten for a leak. */
class Waiting extends Set<() => void> {
  handleEvent(): void {
    for (const abort of this) abort();
  }
}

const waitingFor = new WeakMap<AbortSignal, Waiting>();

/**
 * Resolves when what `start` begins calls `done`; it returns how to end that early.
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
