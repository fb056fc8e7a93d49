import { assertSome } from "../errors.ts";
import { TIMER_MS_MAX } from "../store/clock.ts";

export interface AnswerOptions {
  /**
   * When a request without an answer is given up, to be retried; it may take a tenth longer. Default: one
   * minute; the service may take 30 s. What a request carries is allowed the same time again for each MiB; a
   * blob that is read may take any time, as long as more of it arrives. Infinity: never.
   */
  readonly answerWithinMs?: number;
}

const ANSWER_WITHIN_MS = 60_000;
const MIB = 2 ** 20;
/** How often each waiting request is checked within `answerWithinMs`. */
const LOOKS = 10;

type Silences = (bytes?: number) => Silence;

interface Silence {
  readonly signal: AbortSignal;
  readonly heard: () => void;
  /** Aborts an answer that is not read to its end, so that its connection does not stay open. */
  readonly giveUp: () => void;
  /** `isLetGo`: nothing holds the signal any more, so it can be reused. */
  readonly end: (isLetGo?: boolean) => void;
}

/**
 * Hands out signals that are aborted when nothing was heard for too long before they ended. (The clients' own
 * timeout misses an answer that stops in the middle, and after a failed connection keeps the process alive
 * until it is over.)
 *
 * One timer checks all waiting requests, and a released signal that was not aborted is reused: a signal and a
 * timer for each request took a sixth of the client's CPU for a point query. However long the process was
 * suspended, that counts as one check.
 */
export function silences({ answerWithinMs = ANSWER_WITHIN_MS }: AnswerOptions): Silences {
  assertSome("The limit", { answerWithinMs });
  const waiting = new Set<{ readonly given: AbortController; looks: number }>();
  const ended: AbortController[] = [];
  let timer: ReturnType<typeof setInterval> | undefined;
  return (bytes = 0) => {
    const given = ended.pop() ?? new AbortController();
    // The first check may come immediately, so a request gets one more.
    const looks = LOOKS * (1 + bytes / MIB);
    const one = { given, looks };
    waiting.add(one);
    timer ??= setInterval(
      () => {
        for (const one of waiting) if (one.looks-- <= 0) one.given.abort();
        if (waiting.size === 0) timer = clearInterval(timer) as undefined;
      },
      Math.min(answerWithinMs / LOOKS, TIMER_MS_MAX),
    );
    // An open connection keeps the process alive, so the timer need not.
    timer.unref?.();
    return {
      signal: given.signal,
      heard: () => {
        one.looks = looks;
      },
      giveUp: () => given.abort(),
      end: (isLetGo = false) => {
        waiting.delete(one);
        if (isLetGo && !given.signal.aborted) ended.push(given);
      },
    };
  };
}
