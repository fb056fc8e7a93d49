import { PortError } from "./port-error.ts";

export interface AnswerOptions {
  /**
   * When a request that got no answer is given up, to be repeated. Default: a minute; the service takes 30 s. What a
   * request carries is given as long again for each MiB, and a blob that is read any time, while more of it comes.
   * Infinity: never, which takes a sixth less of the client's CPU for a point query.
   */
  readonly answerWithinMs?: number;
}

const ANSWER_WITHIN_MS = 60_000;
const MIB = 2 ** 20;
/** Longer timers are over at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

interface Silence {
  readonly signal: AbortSignal;
  readonly heard: () => void;
  readonly end: () => void;
}

/**
 * A signal that is aborted when nothing was heard for so long, until its end. (The clients' own timeout lets an
 * answer stop in the middle, and behind a connection that fails keeps the process alive until it is over.)
 */
export function silence({ answerWithinMs = ANSWER_WITHIN_MS }: AnswerOptions, bytes = 0): Silence {
  const given = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  const end = () => clearTimeout(timer);
  const heard = () => {
    end();
    const ms = Math.min(answerWithinMs * (1 + bytes / MIB), TIMER_MS_MAX);
    timer = setTimeout(() => given.abort(), ms);
  };
  heard();
  return { signal: given.signal, heard, end };
}

/** As much of the clients' requests and answers as is looked at here. */
interface Sent {
  readonly body?: unknown;
  abortSignal?: Pick<AbortSignal, "aborted">;
}

interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | undefined };
}

/** As much of a client's pipeline. */
interface Pipeline {
  addPolicy(policy: ReturnType<typeof answers>, order: { readonly afterPhase: "Retry" }): void;
  removePolicy(policy: { readonly name: string }): unknown;
}

/** All clients that come from one service client share its pipeline. */
export function addAnswers(pipeline: Pipeline, service: string, options: AnswerOptions): void {
  const policy = answers(service, options);
  pipeline.removePolicy({ name: policy.name });
  pipeline.addPolicy(policy, { afterPhase: "Retry" });
}

function answers(service: string, options: AnswerOptions) {
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
      const { length = 0 } = Object(request.body) as { readonly length?: number };
      const { signal, end } = silence(options, length);
      request.abortSignal = signal;
      try {
        return checked(service, await next(request));
      } finally {
        end();
        // The next try of a client's own has one of its own.
        delete request.abortSignal;
      }
    },
  };
}

/** A page to log in at, or of a gateway, is no answer of the service, whatever its status says. */
function checked<Got extends Answer>(service: string, answer: Got): Got {
  const { status, headers } = answer;
  const isPage = /^text\/html/i.test(headers.get("content-type") ?? "");
  // A blob may be a page as well.
  if (status < 300 && isPage && !headers.get("x-ms-request-id")) throw noAnswer(service);
  return answer;
}

export function noAnswer(service: string): PortError {
  return new PortError(`What answers is no ${service} service.`, { status: 0, code: "Unknown" });
}
