import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { ServiceError } from "@rowhouse/protocol/errors";
import type { PolicyAddress } from "../auth/auth-context.ts";
import type { AuthDialect } from "../auth/dialect.ts";
import type { Awaitable } from "../awaitable.ts";
import type { AnyOperation, Location, RequestHead, WireResponse } from "../operation.ts";
import type { CorsRule } from "../xml/cors-rules.ts";
import type { Query } from "./query.ts";

/** In the order of their ports. */
export const SERVICE_NAMES = ["blob", "queue", "table"] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];

/** What `http` must know of a service: its operations, and what it does differently from the others. */
export interface Service<Context = unknown> {
  readonly name: ServiceName;
  /** The product token of the `Server` header. */
  readonly product: string;
  readonly operations: readonly AnyOperation<Context>[];
  readonly context: Context;
  readonly dialect: AuthDialect;
  /** Whether `ACCOUNT-secondary` addresses a read-only replica; else it is no account of ours. */
  readonly hasSecondary: boolean;
  /**
   * What `x-ms-version` tells callers that named no version, if the service answers everybody with
   * that header and their own request id. Undefined: only callers who are known get the two.
   */
  readonly versionForStrangers: string | undefined;

  /** Reads the path below the account. Pure. @throws ServiceError for a path that names nothing. */
  locate(servicePath: string, query: Query): Location;
  /**
   * The method that routes: the verb, or what the request makes of it. Tables read `X-HTTP-Method`; for
   * queues and blobs a parameter or a header can make another operation (`GET peekonly`, `COPY`).
   */
  methodOf(head: RequestHead): string;
  /** The protocol version to process by. @throws ServiceError when it is malformed or too old. */
  versionOf(head: RequestHead): Awaitable<string>;
  /** The refusal for a request that no operation listens to. `allowed` are the methods that exist. */
  refuse(head: RequestHead, method: string, allowed: readonly string[]): ServiceError;
  /** The one place where a refusal becomes this service's bytes. */
  encodeError(error: ServiceError, facts: ErrorFacts): WireResponse;

  /** @param now milliseconds since 1970; when the request came will do */
  corsRules(account: string, now: number): Awaitable<readonly CorsRule[]>;
  /** Whether a CORS rule for every origin is answered with `Access-Control-Allow-Credentials` too. */
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
  /** The header of that name; all that is known of a client's wishes where there is no head. */
  readonly accept: string | undefined;
}
