import type { ServiceError } from "@rowhouse/protocol/errors";
import type { Awaitable } from "../awaitable.ts";
import type { Account } from "./account.ts";
import type { BodySource } from "./body-source.ts";
import type { Identity } from "./identity.ts";
import type { Query } from "./query.ts";

/**
 * The seam between `http` and the services: a service is a list of operations plus the few things that differ
 * between services (paths, signatures, error bodies; see `http/service.ts`).
 *
 * `decode` and `encode` are pure, so that `$batch` runs the same operations without HTTP.
 */
export interface Operation<
  Context,
  Input,
  Output,
  Resource extends string = string,
  Request = WireRequest,
> {
  /** The name used in the storage analytics log, our logs and our metrics. */
  readonly name: string;
  /** The route it serves: method, resource (as named by the service's `locate`) and `comp` value. */
  readonly route: Route<Resource>;
  /** The rights a caller needs. Checked before the body is read. */
  readonly access: Access | ((request: Request) => Access);
  /** How the body is passed; `stream` is for bodies too large to hold in memory. Default "none". */
  readonly body?: "none" | "buffer" | "stream";
  /** Largest body for `body: "buffer"`. Default, and upper bound: `LIMITS.bodyBytesMax`. */
  readonly bodyBytesMax?: number;
  /** Pure. @throws ServiceError for anything malformed. */
  decode(request: Request): Input;
  /** Knows of the request what `decode` took from it. */
  run(context: Context, input: Input): Awaitable<Output>;
  /** Pure. Successes only; `wire/error-response.ts` writes errors. */
  encode(output: Output, request: Request): WireResponse;
}

/** Any operation, as routers and lists hold it. The types passed between its steps are private to it. */
export type AnyOperation<Context> = Operation<Context, unknown, unknown>;

export interface Route<Resource extends string> {
  readonly method: string;
  readonly resource: Resource;
  /** Value of the `comp` parameter, in lower case; absent when the operation has none. */
  readonly comp?: string;
  /** Set where `If-Match` selects between two operations: update when present, upsert when absent. */
  readonly ifMatch?: "present" | "absent";
}

/** The rights each kind of credential must carry. A shared key may do everything. */
export interface Access {
  /**
   * Account SAS resource types, any of which suffices: service, container (table, queue), object (entity,
   * message).
   */
  readonly resourceType: "s" | "c" | "o" | "sc" | "sco";
  /**
   * Alternatives of `sp` letters, each of which must be granted in full: `["c", "w"]` is c or w, `["au"]` is
   * both a and u. Empty: no such SAS may ever do this.
   */
  readonly accountSas: readonly string[];
  readonly serviceSas: readonly string[];
  /** The role a bearer token needs; "never" hides the resource from such callers. */
  readonly bearer: "read" | "write" | "never";
  /** A blob read that public access may open to everyone; the operation checks the container's access level. */
  readonly anonymous?: boolean;
}

/** What is known of a request before authentication. Header names are in lower case. */
export interface RequestHead {
  /** The verb on the wire, which signatures cover. */
  readonly verb: string;
  /** Path of the request target exactly as sent, percent-encoded, without the query. */
  readonly rawPath: string;
  readonly query: Query;
  /** The value sent under this name (the last, if there are several), or undefined. */
  header(name: string): string | undefined;
  /** Alternating names and values, in the order sent. */
  readonly rawHeaders: readonly string[];
  /** The path as the service reads it; see `Service.locate`. */
  readonly location: Location;
  /** `http://127.0.0.1:10002/devstoreaccount1`, as the client addressed the account; no trailing slash. */
  readonly baseUrl: string;
  readonly account: Account;
  /** Whether the request addressed the read-only secondary endpoint. */
  readonly secondary: boolean;
  /** Whether the connection is TLS. */
  readonly secure: boolean;
  readonly remoteAddress: string;
  readonly requestId: string;
  /** Milliseconds since 1970 by the server's clock, at the request's arrival. */
  readonly arrivedAt: number;
}

/** One request as operations see it. */
export interface WireRequest extends RequestHead {
  /** The method used for routing; see `Service.methodOf`. */
  readonly method: string;
  readonly identity: Identity;
  /** The protocol version used to process the request, `YYYY-MM-DD`. */
  readonly version: string;
  /** The whole body for `body: "buffer"`, empty for "none". */
  readonly body: Uint8Array;
  /** For `body: "stream"`: read it once, either whole or as it arrives. */
  readonly bodySource: BodySource | undefined;
}

/** Who asks, and when: what an operation may judge by while it runs. Every request is one. */
export type Caller = Pick<WireRequest, "account" | "identity" | "verb" | "arrivedAt">;

/** A path as a service reads it: the kind of resource and its names, percent-decoded. */
export interface Location<Resource extends string = string> {
  readonly resource: Resource;
  /** The table, queue or container; "" when the resource has none. */
  readonly name: string;
  /** Entity keys, blob name or message id, depending on the service. */
  readonly partitionKey?: string;
  readonly rowKey?: string;
  readonly item?: string;
}

export interface WireResponse {
  readonly status: number;
  /** Alternating names and values. `http` adds `Date`, the request id, the version and CORS headers. */
  readonly headers: readonly string[];
  /** Each part of a body that comes in parts is lent until the next one is requested. */
  readonly body?: Uint8Array | string | LentBody | AsyncIterable<Uint8Array> | undefined;
  /** For logs and metrics: a refusal inside an answer that is itself a success, such as a batch's 202. */
  readonly refusal?: RefusalInside | undefined;
}

export interface RefusalInside {
  readonly error: ServiceError;
  /** Verb and path of the refused operation; the path is relative to the account. */
  readonly verb: string;
  readonly path: string;
}

/**
 * A body in memory that its producer reuses after `giveBack`. A sender that passes on the memory itself calls
 * `giveBack` once the bytes have left; a consumer that iterates triggers it by requesting a second part.
 */
export interface LentBody extends AsyncIterable<Uint8Array> {
  /** The body occupies `start` to `end`; the memory in front of `start` is for the sender's own use. */
  readonly memory: Buffer;
  readonly start: number;
  readonly end: number;
  giveBack(): void;
}
