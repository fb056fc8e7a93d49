import { assertSome } from "../errors.ts";
import { TIMER_MS_MAX } from "../store/clock.ts";
import { PortError } from "./port-error.ts";

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

/** As much of the clients' requests and answers as is looked at here. */
interface Sent {
  readonly body?: unknown;
  readonly headers: Headers;
  readonly streamResponseStatusCodes?: { readonly size: number };
  abortSignal?: Pick<AbortSignal, "aborted"> | undefined;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
}

interface Headers {
  get(name: string): string | undefined;
}

/** As much of a client's pipeline. */
interface Pipeline {
  addPolicy(policy: ReturnType<typeof answers>, order: { readonly afterPhase: "Retry" }): void;
  removePolicy(policy: { readonly name: string }): unknown;
}

/** A service of its own here; see `checked`. */
export const COSMOS = "Cosmos table";

/**
 * The pipeline of a queue or blob client, which it shows to no others: of all its places the one that every version has.
 * All clients that come from one service client share it.
 */
export function pipelineOf(ofStorage: object | undefined): Pipeline {
  const pipeline: Pipeline | undefined = Reflect.get(Object(ofStorage), "_corePipeline");
  if (!pipeline) throw new TypeError("A QueueServiceClient or BlobServiceClient (12) is expected.");
  return pipeline;
}

export function addAnswers(pipeline: Pipeline, service: string, options: AnswerOptions): void {
  const policy = answers(service, options);
  pipeline.removePolicy({ name: policy.name });
  pipeline.addPolicy(policy, { afterPhase: "Retry" });
}

function answers(service: string, options: AnswerOptions) {
  const silence = silences(options);
  return {
    name: "rowhouseAnswer",
    async sendRequest<Request extends Sent, Got extends Answer>(
      request: Request,
      next: (request: Request) => Promise<Got>,
    ): Promise<Got> {
      // A blob that is read: its body comes after this.
      if (request.abortSignal || options.answerWithinMs === Number.POSITIVE_INFINITY) {
        return checked(service, await next(request));
      }
      // A stream, or a function that makes one, is no port's: whoever uses the same client takes the time it takes.
      const { length = Number.NaN, call }: { readonly length?: number; readonly call?: unknown } =
        Object(request.body ?? "");
      const { signal, end } = silence(call ? Number.NaN : length);
      request.abortSignal = signal;
      let isLetGo = false;
      try {
        const answer = await next(request);
        isLetGo = !isHeld(request);
        return checked(service, answer);
      } finally {
        end(isLetGo);
        // The next try of a client's own has one of its own.
        request.abortSignal = undefined;
      }
    },
  };
}

/**
 * Whether the signal may be held longer than the request: by a stream whose rest is still to come, or by a token that is
 * renewed meanwhile. A request without an answer may leave behind what listens to it, too.
 */
function isHeld({ headers, streamResponseStatusCodes }: Sent): boolean {
  const isStreamed = (streamResponseStatusCodes?.size ?? 0) > 0;
  return isStreamed || /^Bearer /i.test(headers.get("authorization") ?? "");
}

/**
 * What a page to log in at or a gateway says is no answer of the service, whatever its status: least of all that
 * something was done, is not there, is there already or has changed. The service's have its request id, even those
 * without a body; nobody promises that of Cosmos, so there it is the type that tells.
 */
function checked<Got extends Answer>(service: string, answer: Got): Got {
  const { status, headers } = answer;
  const type = headers.get("content-type") ?? "";
  const isAbout = [404, 409, 412].includes(status);
  const isOthers =
    service === COSMOS
      ? isAbout
        ? !/json|xml/i.test(type)
        : status < 300 && /^text\/html/i.test(type)
      : isAbout || status < 300;
  if (isOthers && !headers.get("x-ms-request-id")) throw noAnswer(service);
  return answer;
}

export function noAnswer(service: string): PortError {
  const hint = "Cosmos needs its profile, and browsers need CORS to expose x-ms-request-id.";
  const message = `What answers is no ${service} service. ${hint}`;
  return new PortError(message, { status: 0, code: "Unknown" });
}
