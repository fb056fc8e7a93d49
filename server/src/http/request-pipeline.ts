import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Accounts } from "../auth/accounts.ts";
import { type AuthContext, type AuthRules, withPolicies } from "../auth/auth-context.ts";
import { authenticate } from "../auth/authenticate.ts";
import { authorize, refuseAnonymous } from "../auth/authorize.ts";
import { sentVersionOr, versionOfRefused } from "../auth/version.ts";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Clock, Stopwatch } from "../clock.ts";
import { announcedBytes, bodyBytesOf, isLent, kept } from "../wire/body-bytes.ts";
import { BodyAborted } from "../wire/body-source.ts";
import { toServiceError } from "../wire/error-response.ts";
import type { Gate } from "../wire/gate.ts";
import { HttpDate } from "../wire/http-date.ts";
import type { Identity } from "../wire/identity.ts";
import type { ExchangeObserver } from "../wire/observer.ts";
import type { AnyOperation, WireResponse } from "../wire/operation.ts";
import type { Query } from "../wire/query.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import { Router } from "../wire/router.ts";
import type { CorsRule } from "../xml/cors-rules.ts";
import { AddressReader } from "./address.ts";
import { corsHeaders, preflightResponse } from "./cors.ts";
import { KNOWN_VERBS, type RawRequest } from "./raw-request.ts";
import { Request } from "./request.ts";
import { RequestIds } from "./request-id.ts";
import type { Service } from "./service.ts";
import { checkDeadline, type Deadline, TimedBody } from "./timed-body.ts";

export interface RequestPipelineOptions {
  readonly accounts: Accounts;
  readonly clock: Clock;
  readonly observer: ExchangeObserver;
  readonly gate?: Gate | undefined;
  /** Times requests where the clock's whole milliseconds are too coarse. Costs one more call per request. */
  readonly stopwatch?: Stopwatch | undefined;
  /** Whether `ACCOUNT.table.HOST` names an account; path-style always works. */
  readonly hostStyle: boolean;
  readonly auth: AuthRules;
}

/**
 * Carries one service's requests from the wire to its operations and back, over any transport: address →
 * authenticate → version → route → authorize → body → gate → decode → run → encode, in the order of the
 * methods below. Anything thrown on the way becomes the service's error answer, here and nowhere else.
 */
export class RequestPipeline<Context> {
  readonly #service: Service<Context>;
  readonly #options: RequestPipelineOptions;
  readonly #auth: AuthContext;
  readonly #addresses: AddressReader;
  readonly #router: Router<AnyOperation<Context>>;
  readonly #requestIds = new RequestIds();
  readonly #date = new HttpDate();

  constructor(service: Service<Context>, options: RequestPipelineOptions) {
    this.#service = service;
    this.#options = options;
    this.#router = new Router(service.operations);
    this.#addresses = new AddressReader({
      serviceName: service.name,
      hostStyle: options.hostStyle,
      hasSecondary: service.hasSecondary,
      accounts: options.accounts,
    });
    this.#auth = withPolicies(options.auth, (address) => service.storedPolicy(address));
  }

  /**
   * Answers every request, with a promise only if some step had to wait. Throws or rejects only with
   * BodyAborted.
   */
  handle(raw: RawRequest): Awaitable<WireResponse> {
    const { clock, stopwatch } = this.#options;
    const request = new Request(raw, this.#requestIds.next(), clock.now());
    if (stopwatch !== undefined) request.beganAt = stopwatch.now();
    try {
      const response = this.#identify(request);
      if (!(response instanceof Promise)) return this.#finish(request, response);
      return response.then(
        (success) => this.#finish(request, success),
        (error) => this.#fail(request, error),
      );
    } catch (error) {
      return this.#fail(request, error);
    }
  }

  /** Whether it is addressed to `ACCOUNT-secondary`. */
  isForSecondary({ headers, target, secure }: RawRequest): boolean {
    const mark = target.indexOf("?");
    const path = mark < 0 ? target : target.slice(0, mark);
    try {
      return this.#addresses.read(headers.get("host"), path, secure).secondary;
    } catch {
      return false;
    }
  }

  /** Whether the host names the account, so that the whole path is below the account. */
  hostNamesAccount({ headers }: RawRequest): boolean {
    return this.#addresses.isHostStyle(headers.get("host"));
  }

  #identify(request: Request): Awaitable<WireResponse> {
    const service = this.#service;
    const address = this.#addresses.read(request.header("host"), request.rawPath, request.secure);
    request.account = address.account;
    request.secondary = address.secondary;
    request.baseUrl = address.baseUrl;
    if (request.verb === "OPTIONS") {
      return whenReady(service.corsRules(request.account.name, request.arrivedAt), (rules) =>
        preflightResponse(rules, request, service),
      );
    }
    try {
      request.location = service.locate(address.servicePath, request.query);
    } catch (error) {
      request.misplaced = error;
    }
    request.located = true;
    const identity = authenticate(request, service.dialect, this.#auth);
    return identity instanceof Promise
      ? identity.then((known) => this.#readVersion(request, known))
      : this.#readVersion(request, identity);
  }

  #readVersion(request: Request, identity: Identity): Awaitable<WireResponse> {
    request.identity = identity;
    const version = this.#service.versionOf(request);
    return version instanceof Promise
      ? version.then((known) => this.#admit(request, known))
      : this.#admit(request, version);
  }

  #admit(request: Request, version: string): Awaitable<WireResponse> {
    const { identity } = request;
    request.version = version;
    if (request.misplaced !== undefined) throw request.misplaced;
    request.method = this.#service.methodOf(request);
    const operation = this.#route(request);
    request.operationName = operation.name;
    const { access } = operation;
    authorize(
      request,
      identity,
      typeof access === "function" ? access(request) : access,
      this.#service.dialect,
    );
    if (request.peer) request.peer.account = request.account.name;
    request.deadline = this.#deadlineOf(request);
    switch (operation.body) {
      case "buffer":
        return this.#readBody(operation, request);
      case "stream":
        request.bodySource = request.deadline
          ? new TimedBody(request.source, request.deadline)
          : request.source;
        return this.#passGate(operation, request);
    }
    return this.#passGate(operation, request);
  }

  #route(request: Request): AnyOperation<Context> {
    const operation = this.#router.find(request);
    if (operation) return operation;
    if (!KNOWN_VERBS.has(request.method)) throw new ServiceError("InvalidHttpVerb");
    // An anonymous caller must not learn which operations exist.
    if (request.identity.kind === "anonymous") throw refuseAnonymous(request.verb);
    throw this.#service.refuse(request, request.method, this.#router.methodsOf(request));
  }

  #readBody(operation: AnyOperation<Context>, request: Request): Awaitable<WireResponse> {
    return whenReady(request.source.read(LIMITS.bodyBytesMax), (body) =>
      this.#takeBody(operation, request, body),
    );
  }

  #takeBody(
    operation: AnyOperation<Context>,
    request: Request,
    body: Uint8Array | undefined,
  ): Awaitable<WireResponse> {
    // Much larger bodies are not read at all. Slightly larger ones are, so that the client receives the
    // refusal.
    const bytesMax = operation.bodyBytesMax ?? LIMITS.bodyBytesMax;
    if (body === undefined || body.length > bytesMax) {
      throw new ServiceError("RequestBodyTooLarge", { details: [["MaxLimit", String(bytesMax)]] });
    }
    request.body = body;
    return this.#passGate(operation, request);
  }

  #passGate(operation: AnyOperation<Context>, request: Request): Awaitable<WireResponse> {
    const { gate } = this.#options;
    if (gate === undefined) return this.#runOperation(operation, request);
    const facts = { operation: operation.name, resource: request.location.name };
    return whenReady(gate.enter(facts), () => this.#runOperation(operation, request));
  }

  /**
   * `timeout` is in seconds. Azure shortens one that is too long, so a large number is no error; one that is
   * not a number is refused.
   */
  #deadlineOf({ query, arrivedAt, heldMs }: Request): Deadline | undefined {
    const text = query.get("timeout");
    if (text === undefined || text === "") return undefined;
    if (!/^\d+$/.test(text)) {
      throw invalidParameter("timeout", text, "A whole number of seconds is expected.");
    }
    const seconds = Number(text);
    return seconds === 0
      ? undefined
      : { clock: this.#options.clock, latestAt: arrivedAt - heldMs + seconds * 1000 };
  }

  #runOperation(operation: AnyOperation<Context>, request: Request): Awaitable<WireResponse> {
    if (request.deadline) checkDeadline(request.deadline);
    const input = operation.decode(request);
    const output = operation.run(this.#service.context, input);
    if (!(output instanceof Promise)) return operation.encode(output, request);
    return output.then((known) => {
      const response = operation.encode(known, request);
      // A flush answers many writes at once. Lent bodies would all be out before the first is sent: with 256
      // clients, an insert that returns its entity took 70 µs instead of 45.
      return isLent(response.body) ? { ...response, body: kept(response.body) } : response;
    });
  }

  #finish(request: Request, response: WireResponse): Awaitable<WireResponse> {
    this.#observe(request, response, response.refusal?.error);
    return this.#complete(request, response);
  }

  #fail(request: Request, error: unknown): Awaitable<WireResponse> {
    if (error instanceof BodyAborted) throw error;
    const refusal = toServiceError(error);
    const head = request.located && isReadable(request.query) ? request : undefined;
    // The credentials were valid but used in the wrong place or over the wrong protocol: the caller is known.
    if (head && request.version === "" && refusal.stage !== "authentication") {
      request.version = versionOfRefused(head, this.#service.dialect);
    }
    const response = this.#service.encodeError(refusal, {
      requestId: request.requestId,
      now: this.#options.clock.now(),
      head,
      accept: request.header("accept"),
    });
    this.#observe(request, response, refusal);
    // A type without a body; recordings of the cloud lack it, in tables and queues alike.
    return this.#complete(request, request.verb === "HEAD" ? withoutType(response) : response);
  }

  /** Adds the headers of every answer, and those that CORS requires. */
  #complete(request: Request, response: WireResponse): Awaitable<WireResponse> {
    const headers = [...response.headers];
    headers.push("x-ms-request-id", request.requestId, "Date", this.#date.at(request.arrivedAt));
    headers.push("Server", this.#service.product);
    const version = request.version || this.#versionForUnauthenticated(request);
    if (version !== undefined) headers.push("x-ms-version", version);
    const echo = request.clientRequestId;
    if (echo !== undefined && version !== undefined) headers.push("x-ms-client-request-id", echo);
    const answer = { status: response.status, headers, body: response.body };
    if (request.account.name === "" || request.verb === "OPTIONS") return answer;
    // If the rules cannot be read, an answer that scripts may not see is better than none.
    try {
      const rules = this.#service.corsRules(request.account.name, request.arrivedAt);
      if (!(rules instanceof Promise)) return withCors(rules, request, answer);
      return rules.then(
        (known) => withCors(known, request, answer),
        () => answer,
      );
    } catch {
      return answer;
    }
  }

  #versionForUnauthenticated(request: Request): string | undefined {
    const { versionForUnauthenticated } = this.#service;
    return versionForUnauthenticated && sentVersionOr(request, versionForUnauthenticated);
  }

  #observe(request: Request, response: WireResponse, refusal: ServiceError | undefined): void {
    const { status } = response;
    const { clock, observer, stopwatch } = this.#options;
    const service = this.#service.name;
    if (!observer.listens(service, request.account.name, refusal !== undefined)) return;
    const record = {
      service,
      operation: request.operationName,
      requestId: request.requestId,
      clientRequestId: request.clientRequestId,
      account: request.account.name,
      verb: request.verb,
      path: request.rawPath,
      status,
      errorCode: refusal?.code,
      refusedInside: response.refusal,
      cause: refusal && refusal.status >= 500 ? (refusal.cause ?? refusal) : undefined,
      durationMs:
        stopwatch === undefined
          ? clock.now() - request.arrivedAt
          : stopwatch.now() - request.beganAt,
      remoteAddress: request.remoteAddress,
      caller: request.identity.kind,
      subject: request.identity.kind === "bearer" ? request.identity.subject : undefined,
      requestBytes:
        request.bodySource === undefined
          ? request.body.length
          : Number(request.header("content-length") ?? 0),
      responseBytes: bodyBytesOf(response.body) ?? announcedBytes(response.headers) ?? 0,
    };
    observer.finished(record, request, response);
  }
}

function withoutType(response: WireResponse): WireResponse {
  const { headers } = response;
  const at = headers.indexOf("Content-Type");
  return at < 0 ? response : { ...response, headers: headers.toSpliced(at, 2) };
}

function withCors(
  rules: readonly CorsRule[],
  request: Request,
  answer: WireResponse & { readonly headers: string[] },
): WireResponse {
  if (rules.length > 0) {
    const facts = { method: request.verb, origin: request.header("origin") };
    answer.headers.push(...corsHeaders(rules, facts, headersOnTheWire(answer)));
  }
  return answer;
}

/** The lane adds Content-Length when it writes the answer, and a rule may expose that header, too. */
function headersOnTheWire({ status, headers, body }: WireResponse): readonly string[] {
  const isBare = body === undefined && (status === 204 || status === 304);
  if (isBare || announcedBytes(headers) !== undefined) return headers;
  return [...headers, "Content-Length", ""];
}

/** Whether every parameter can be decoded. */
function isReadable(query: Query): boolean {
  try {
    return query.pairs !== undefined;
  } catch {
    return false;
  }
}
