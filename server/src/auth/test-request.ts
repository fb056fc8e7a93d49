import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Clock } from "../clock.ts";
import type { Account } from "../wire/account.ts";
import type { Location, RequestHead } from "../wire/operation.ts";
import { Query } from "../wire/query.ts";
import { DEVELOPMENT_ACCOUNT } from "./accounts.ts";
import type { AuthContext } from "./auth-context.ts";
import { authenticate as authenticateHead } from "./authenticate.ts";
import type { AuthDialect } from "./dialect.ts";

/** The fields of a request that a test sets besides the request line; the others have defaults. */
export interface RequestSketch extends Partial<Omit<RequestHead, "header" | "query" | "verb">> {
  /** By name as sent; a list repeats the header. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

/** A request for tests of authentication: `sketchRequest("GET /devstoreaccount1/People?comp=acl")`. */
export function sketchRequest(
  line: string,
  { headers = {}, ...rest }: RequestSketch = {},
): RequestHead {
  const [verb = "", target = ""] = line.split(" ");
  const question = target.indexOf("?");
  const rawHeaders = Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().flatMap((value) => [name, value]),
  );
  const byName = new Map<string, string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    byName.set(rawHeaders[index]!.toLowerCase(), rawHeaders[index + 1]!);
  }
  return {
    verb,
    rawPath: question < 0 ? target : target.slice(0, question),
    query: new Query(question < 0 ? "" : target.slice(question + 1)),
    rawHeaders,
    header: (name) => byName.get(name),
    location: ANYWHERE,
    baseUrl: `http://127.0.0.1:10002/${DEVELOPMENT_ACCOUNT.name}`,
    account: DEVELOPMENT_ACCOUNT,
    secondary: false,
    secure: false,
    remoteAddress: "127.0.0.1",
    requestId: "00000000-0000-0000-0000-000000000000",
    arrivedAt: 0,
    ...rest,
  };
}

const ANYWHERE: Location = { resource: "service", name: "" };

/** An authentication context, and when the request arrives. */
export interface TestContext extends AuthContext {
  readonly now: number;
}

/** Without policies or bearer tokens. */
export function contextAt(time: string, changes: Partial<AuthContext> = {}): TestContext {
  return {
    now: Date.parse(time),
    checkDate: true,
    bearer: undefined,
    storedPolicy: () => undefined,
    ...changes,
  };
}

/** Authenticates the request as if it arrived at the time of the context. */
export function authenticate(
  head: RequestHead,
  dialect: AuthDialect,
  context: TestContext,
): ReturnType<typeof authenticateHead> {
  return authenticateHead({ ...head, arrivedAt: context.now }, dialect, context);
}

export function frozenAt(time: string): Clock {
  const now = Date.parse(time);
  return { now: () => now };
}

/** The base64 signature of a text, computed with `createHmac`. */
export function sign(text: string, account: Account = DEVELOPMENT_ACCOUNT, key = 0): string {
  return createHmac("sha256", account.keys[key]!).update(text).digest("base64");
}

/** The error an action throws. */
export function refusalOf(action: () => unknown): ServiceError {
  try {
    action();
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  return assert.fail("Nothing was refused.");
}
