import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { ServiceError } from "@rowhouse/protocol/errors";
import type { PolicyAddress } from "../auth/auth-context.ts";
import type { AuthDialect } from "../auth/dialect.ts";
import type { Awaitable } from "../awaitable.ts";
import type { AnyOperation, Location, RequestHead, WireResponse } from "../wire/operation.ts";
import type { Query } from "../wire/query.ts";
import type { ServiceName } from "../wire/service-name.ts";
import type { CorsRule } from "../xml/cors-rules.ts";

/** What `http` needs to know of a service: its operations, and how it differs from the others. */
export interface Service<Context = unknown> {
  readonly name: ServiceName;
  /** The product token of the `Server` header. */
  readonly product: string;
  readonly operations: readonly AnyOperation<Context>[];
  readonly context: Context;
  readonly dialect: AuthDialect;
  /** Whether `ACCOUNT-secondary` addresses a read-only replica; if not, it is an unknown account. */
  readonly hasSecondary: boolean;
  /**
   * The `x-ms-version` sent to callers that named no version, if the service sends that header and the
   * client's request id to everyone. Undefined: only authenticated callers get the two.
   */
  readonly versionForUnauthenticated: string | undefined;

  /** Reads the path below the account. Pure. @throws ServiceError for a path that names nothing. */
  locate(servicePath: string, query: Query): Location;
  /**
   * The method used for routing: the verb, or what the request turns it into. Tables read `X-HTTP-Method`;
   * for queues and blobs a parameter or a header can select another operation (`GET peekonly`, `COPY`).
   */
  methodOf(head: RequestHead): string;
  /** The protocol version to process by. @throws ServiceError when it is malformed or too old. */
  versionOf(head: RequestHead): Awaitable<string>;
  /** The refusal for a request that no operation serves. `allowed` are the methods that exist there. */
  refuse(head: RequestHead, method: string, allowed: readonly string[]): ServiceError;
  /** The one place where a refusal becomes this service's bytes. */
  encodeError(error: ServiceError, facts: ErrorFacts): WireResponse;

  /** @param now milliseconds since 1970; the request's arrival time suffices */
  corsRules(account: string, now: number): Awaitable<readonly CorsRule[]>;
  /** Whether the preflight answer for a CORS rule for `*` also carries `Access-Control-Allow-Credentials`. */
  readonly starCredentials: boolean;
  storedPolicy(address: PolicyAddress): Awaitable<AccessPolicy | undefined>;
}

/** What an error body depends on besides the error. */
export interface ErrorFacts {
  readonly requestId: string;
  /** Milliseconds since 1970, for the `Time:` line. */
  readonly now: number;
  /** Absent when the request was refused before its account was known, or its query is malformed. */
  readonly head: RequestHead | undefined;
  /** The `Accept` header; without a head, the only information about what the client wants. */
  readonly accept: string | undefined;
}
