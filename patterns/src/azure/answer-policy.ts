import { PortError } from "../ports/port-error.ts";
import { type AnswerOptions, silences } from "./silence.ts";

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
  addPolicy(policy: ReturnType<typeof answerPolicy>, order: { readonly afterPhase: "Retry" }): void;
  removePolicy(policy: { readonly name: string }): unknown;
}

/**
 * The pipeline of a queue or blob client, which it shows to no others: of all its places the one that every version has.
 * All clients that come from one service client share it.
 */
export function pipelineOf(ofStorage: object | undefined): Pipeline {
  const pipeline: Pipeline | undefined = Reflect.get(Object(ofStorage), "_corePipeline");
  if (!pipeline) throw new TypeError("A QueueServiceClient or BlobServiceClient (12) is expected.");
  return pipeline;
}

export function addAnswerPolicy(
  pipeline: Pipeline,
  service: string,
  options: AnswerOptions,
  isOfService: IsOfService = isOfStorage,
): void {
  const policy = answerPolicy(service, options, isOfService);
  pipeline.removePolicy({ name: policy.name });
  pipeline.addPolicy(policy, { afterPhase: "Retry" });
}

function answerPolicy(service: string, options: AnswerOptions, isOfService: IsOfService) {
  const silence = silences(options);
  const checked = <Got extends Answer>(answer: Got): Got => {
    if (saysWhatIs(answer) && !isOfService(answer)) throw noAnswer(service);
    return answer;
  };
  return {
    name: "rowhouseAnswer",
    async sendRequest<Request extends Sent, Got extends Answer>(
      request: Request,
      next: (request: Request) => Promise<Got>,
    ): Promise<Got> {
      // A blob that is read: its body comes after this.
      if (request.abortSignal || options.answerWithinMs === Number.POSITIVE_INFINITY) {
        return checked(await next(request));
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
        return checked(answer);
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
 * Whether an answer says that something was done, is not there, is there already or has changed: nobody but the service
 * can say that, no page to log in at and no gateway on the way.
 */
function saysWhatIs({ status }: Answer): boolean {
  return status < 300 || [404, 409, 412].includes(status);
}

type IsOfService = (answer: Answer) => boolean;

/**
 * Every answer of the storage services has a request id, even one without a body. What was done has the others too; the
 * emulator's refusals lack the version. A browser shows the headers that CORS exposes: where one of these is hidden, so may
 * be the continuation, without which the first page would pass for all.
 */
const isOfStorage: IsOfService = ({ status, headers }) => {
  const names = ["x-ms-request-id", ...(status < 300 ? ["x-ms-version", "date"] : [])];
  return names.every((name) => Boolean(headers.get(name)));
};

/** Nobody promises that of Cosmos, so it is the type that tells there. */
export const isOfCosmos: IsOfService = ({ status, headers }) => {
  const type = headers.get("content-type") ?? "";
  const isItsType = status < 300 ? !/^text\/html/i.test(type) : /json|xml/i.test(type);
  return isItsType || Boolean(headers.get("x-ms-request-id"));
};

export function noAnswer(service: string): PortError {
  const hint = "Cosmos needs its profile, and browsers need CORS to expose all headers (*).";
  const message = `What answers is no ${service} service. ${hint}`;
  return new PortError(message, { status: 0, code: "Unknown" });
}
