import { PortError } from "../ports/port-error.ts";
import { type AnswerOptions, silences } from "./silence.ts";

/** The parts of the clients' requests and answers that are used here. */
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

/** The parts of a client's pipeline that are used here. */
interface Pipeline {
  addPolicy(policy: ReturnType<typeof answerPolicy>, order: { readonly afterPhase: "Retry" }): void;
  removePolicy(policy: { readonly name: string }): unknown;
}

/**
 * The pipeline of a queue or blob client, which is private: of all the places that hold it, this one exists in
 * every version. All clients that come from one service client share it.
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
      // The request reads a blob, whose body arrives after this.
      if (request.abortSignal || options.answerWithinMs === Number.POSITIVE_INFINITY) {
        return checked(await next(request));
      }
      // No port sends a stream or a function that creates one: it is another user's of the client, and may take
      // any time.
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
        // The next attempt of a client's own retries gets a signal of its own.
        request.abortSignal = undefined;
      }
    },
  };
}

/**
 * Whether the signal may be held for longer than the request: by a stream whose rest is still to arrive, or by
 * a token that is being renewed. A request without an answer may also leave listeners on it.
 */
function isHeld({ headers, streamResponseStatusCodes }: Sent): boolean {
  const isStreamed = (streamResponseStatusCodes?.size ?? 0) > 0;
  return isStreamed || /^Bearer /i.test(headers.get("authorization") ?? "");
}

/**
 * Whether an answer says that something was done, is missing, exists already or has changed. Only the service
 * can say that; a login page or a gateway on the way cannot.
 */
function saysWhatIs({ status }: Answer): boolean {
  return status < 300 || [404, 409, 412].includes(status);
}

type IsOfService = (answer: Answer) => boolean;

/**
 * Every answer of the storage services has a request id, even without a body. Successful answers also have the
 * other two headers; the emulator's refusals lack the version. A browser shows the headers that CORS exposes:
 * if one of these is hidden, the continuation may be hidden too, and the first page would pass for all.
 */
const isOfStorage: IsOfService = ({ status, headers }) => {
  const names = ["x-ms-request-id", ...(status < 300 ? ["x-ms-version", "date"] : [])];
  return names.every((name) => Boolean(headers.get(name)));
};

/** Cosmos promises no such header, so there the content type decides. */
export const isOfCosmos: IsOfService = ({ status, headers }) => {
  const type = headers.get("content-type") ?? "";
  const isItsType = status < 300 ? !/^text\/html/i.test(type) : /json|xml/i.test(type);
  return isItsType || Boolean(headers.get("x-ms-request-id"));
};

export function noAnswer(service: string): PortError {
  const hint = "Cosmos needs its profile; browsers need CORS to expose all headers (*).";
  const message = `The endpoint is not a ${service} service. ${hint}`;
  return new PortError(message, { status: 0, code: "Unknown" });
}
