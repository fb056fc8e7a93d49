import { assertSome } from "../errors.ts";
import { TIMER_MS_MAX } from "../store/clock.ts";

export interface AnswerOptions {
  /**
   * When a request that got no answer is given up, to be repeated; up to a tenth later. Default: a minute; the service
   * takes 30 s. What a request carries is given as long again for each MiB, and a blob that is read any time, while
   * more of it comes. Infinity: never.
   */
  readonly answerWithinMs?: number;
}

const ANSWER_WITHIN_MS = 60_000;
const MIB = 2 ** 20;
/** So often all that wait are looked at within `answerWithinMs`. */
const LOOKS = 10;

type Silences = (bytes?: number) => Silence;

interface Silence {
  readonly signal: AbortSignal;
  readonly heard: () => void;
  /** Of an answer that is not read to its end, so that its connection does not stay open. */
  readonly giveUp: () => void;
  /** `isLetGo`: nobody holds the signal any more, so that the next one can have it. */
  readonly end: (isLetGo?: boolean) => void;
}

/**
 * Gives signals that are aborted when nothing was heard for so long, until their end. (The clients' own timeout lets an
 * answer stop in the middle, and behind a connection that fails keeps the process alive until it is over.)
 *
 * One timer looks at all that wait, and a signal that was not aborted and is let go is used again: a signal and a timer
 * for each request took a sixth of the client's CPU for a point query. However long the process stood still, it is one
 * look.
 */
export function silences({ answerWithinMs = ANSWER_WITHIN_MS }: AnswerOptions): Silences {
  assertSome("The limit", { answerWithinMs });
  const waiting = new Set<{ readonly given: AbortController; looks: number }>();
  const ended: AbortController[] = [];
  let timer: ReturnType<typeof setInterval> | undefined;
  return (bytes = 0) => {
    const given = ended.pop() ?? new AbortController();
    // The first look may come at once, so it takes one more.
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
    // A connection that waits keeps the process alive.
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
