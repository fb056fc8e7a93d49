import type { ServiceError } from "@rowhouse/protocol/errors";
import type { Account } from "./auth/accounts.ts";
import type { Identity } from "./auth/identity.ts";
import type { Awaitable } from "./awaitable.ts";
import type { Query } from "./http/query.ts";
import type { BodySource } from "./http/raw-request.ts";

/**
 * The seam between `http` and the services: a service is a list of operations plus the few things
 * that differ between the services (paths, signatures, error bodies; see `http/service.ts`).
 *
 * `decode` and `encode` are pure, so that `$batch` runs the same operations without HTTP.
 */
export interface Operation<Context, Input, Output, Resource extends string = string> {
  /** The name in the storage analytics log; also the name in our logs and metrics. */
  readonly name: string;
  /** Where it listens: method, resource (as the service's `locate` names it) and `comp` value. */
  readonly route: Route<Resource>;
  /** What a caller must be granted. Checked before the body is read. */
  readonly access: Access | ((request: WireRequest) => Access);
  /** How the body arrives; `stream` is for bodies too large to hold. Default "none". */
  readonly body?: "none" | "buffer" | "stream";
  /** Largest body for `body: "buffer"`. Default `LIMITS.bodyBytesMax`, which is never exceeded. */
  readonly bodyBytesMax?: number;
  /** Pure. @throws ServiceError for anything malformed. */
  decode(request: WireRequest): Input;
  run(context: Context, input: Input, request: WireRequest): Awaitable<Output>;
  /** Pure. Success only: errors are written by `http/error-response.ts`. */
  encode(output: Output, request: WireRequest): WireResponse;
}

/** Any operation, as routers and lists hold it: what passes between its own steps is its own affair. */
export type AnyOperation<Context> = Operation<Context, unknown, unknown>;

export interface Route<Resource extends string> {
  readonly method: string;
  readonly resource: Resource;
  /** Value of the `comp` parameter, lower case; absent when the operation has none. */
  readonly comp?: string;
  /** Where an `If-Match` makes another operation of the same request: update or upsert. */
  readonly ifMatch?: "present" | "absent";
}

/** What each kind of credential must carry. A shared key may do everything. */
export interface Access {
  /** Account SAS resource types, any of which will do: service, container (table, queue), object (entity, message). */
  readonly resourceType: "s" | "c" | "o" | "sc" | "sco";
  /**
   * Letters of `sp`, as alternatives that each must be granted whole: `["c", "w"]` is c or w,
   * `["au"]` is both. An empty list: no such SAS may ever do this.
   */
  readonly accountSas: readonly string[];
  readonly serviceSas: readonly string[];
  /** What a bearer token's role must allow; "never" hides the resource from such callers. */
  readonly bearer: "read" | "write" | "never";
  /** Blob reads that public access may open to everyone; the operation looks at the container's level. */
  readonly anonymous?: boolean;
}

/** What is known of a request before anyone asked who sends it. Header names are lower case. */
export interface RequestHead {
  /** The verb on the wire: what signatures are made of. */
  readonly verb: string;
  /** Path of the request target exactly as sent, percent-encoded, without the query. */
  readonly rawPath: string;
  readonly query: Query;
  /** The value sent under this name (the last, if several), or undefined. */
  header(name: string): string | undefined;
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[];
  /** The service's own reading of the path; see `Service.locate`. */
  readonly location: Location;
  /** `http://127.0.0.1:10002/devstoreaccount1`, as the client addressed the account; no final slash. */
  readonly baseUrl: string;
  readonly account: Account;
  /** Whether the read-only secondary endpoint was addressed. */
  readonly secondary: boolean;
  /** Whether the connection is TLS. */
  readonly secure: boolean;
  readonly remoteAddress: string;
  readonly requestId: string;
  /** Milliseconds since 1970, by the server's clock, when the request arrived. */
  readonly arrivedAt: number;
}

/** One request as operations see it. */
export interface WireRequest extends RequestHead {
  /** What routed it; see `Service.methodOf`. */
  readonly method: string;
  readonly identity: Identity;
  /** The protocol version used to process the request, `YYYY-MM-DD`. */
  readonly version: string;
  /** Whole body for `body: "buffer"`, empty for "none". */
  readonly body: Uint8Array;
  /** For `body: "stream"`: to be read once, as a whole or as it arrives. */
  readonly bodySource: BodySource | undefined;
}

/** A path, read by a service: the kind of resource and its names, percent-decoded. */
export interface Location<Resource extends string = string> {
  readonly resource: Resource;
  /** The table, queue or container; "" when the resource has none. */
  readonly name: string;
  /** Entity keys, blob name, message id: whatever the service keeps there. */
  readonly partitionKey?: string;
  readonly rowKey?: string;
  readonly item?: string;
}

export interface WireResponse {
  readonly status: number;
  /** Names and values in turn. `Date`, request id, version and CORS headers are added by `http`. */
  readonly headers: readonly string[];
  /** Of a body that comes in parts, each is lent until the next is asked for. */
  readonly body?: Uint8Array | string | LentBody | AsyncIterable<Uint8Array> | undefined;
  /** For logs and metrics: what was refused inside an answer that is itself a success, as a batch's 202 is. */
  readonly refusal?: RefusalInside | undefined;
}

export interface RefusalInside {
  readonly error: ServiceError;
  /** Of the operation that was refused; its path is below the account. */
  readonly verb: string;
  readonly path: string;
}

/**
 * A body in memory that its maker uses again after `giveBack`. Whoever sends the memory itself calls that
 * when the bytes have left; whoever iterates over the body instead has it called by asking for a second part.
 */
export interface LentBody extends AsyncIterable<Uint8Array> {
  /** The body stands in it from `start` to `end`; what is in front is for the sender's own use. */
  readonly memory: Buffer;
  readonly start: number;
  readonly end: number;
  giveBack(): void;
}
