import { LIMITS } from "@rowhouse/protocol/limits";
import type { Account } from "../wire/account.ts";
import type { BodySource } from "../wire/body-source.ts";
import { PRINTABLE_ASCII } from "../wire/header-values.ts";
import type { Identity } from "../wire/identity.ts";
import type { Location, WireRequest } from "../wire/operation.ts";
import { Query } from "../wire/query.ts";
import type { Headers, RawRequest } from "./raw-request.ts";
import type { Deadline } from "./timed-body.ts";

const NO_BODY = new Uint8Array(0);
const NOWHERE: Location = { resource: "", name: "" };
const NOBODY: Account = { name: "", keys: [] };

/**
 * One request on its way through the pipeline: created from the wire, then completed step by step. Each field is
 * valid once the step named above it has run; `request-pipeline.ts` keeps that order.
 */
export class Request implements WireRequest {
  readonly verb: string;
  readonly rawPath: string;
  readonly query: Query;
  readonly headers: Headers;
  readonly secure: boolean;
  readonly remoteAddress: string;
  readonly opensConnection: boolean;
  readonly heldMs: number;
  readonly peer: RawRequest["peer"];
  readonly source: BodySource;
  readonly requestId: string;
  /** Looked up once. It is echoed and logged; an unprintable or very long one counts as absent. */
  readonly clientRequestId: string | undefined;
  readonly arrivedAt: number;

  /** Stopwatch reading at the start, if there is a stopwatch. */
  beganAt = 0;

  // Addressing.
  account = NOBODY;
  secondary = false;
  baseUrl = "";
  location = NOWHERE;
  located = false;
  /** Why the path names no resource. Thrown after authentication: anonymous callers learn nothing. */
  misplaced: unknown = undefined;
  // Authentication.
  identity: Identity = { kind: "anonymous" };
  // Routing.
  version = "";
  method: string;
  operationName = "";
  // Body.
  body: Uint8Array = NO_BODY;
  bodySource: BodySource | undefined = undefined;
  /** Set where the client sent a `timeout`. */
  deadline: Deadline | undefined = undefined;

  constructor(raw: RawRequest, requestId: string, arrivedAt: number) {
    const mark = raw.target.indexOf("?");
    this.verb = raw.verb;
    this.method = raw.verb;
    this.rawPath = mark < 0 ? raw.target : raw.target.slice(0, mark);
    this.query = Query.of(mark < 0 ? "" : raw.target.slice(mark + 1));
    this.headers = raw.headers;
    this.secure = raw.secure;
    this.remoteAddress = raw.remoteAddress;
    this.opensConnection = raw.opensConnection === true;
    this.heldMs = raw.heldMs ?? 0;
    this.peer = raw.peer;
    this.source = raw.body;
    this.requestId = requestId;
    this.clientRequestId = printableId(raw.headers.get("x-ms-client-request-id"));
    this.arrivedAt = arrivedAt;
  }

  header(name: string): string | undefined {
    return this.headers.get(name);
  }

  get rawHeaders(): readonly string[] {
    return this.headers.raw;
  }
}

/** Bytes above ASCII pass one of the lanes, and as control characters they would command the terminal of a log. */
function printableId(id: string | undefined): string | undefined {
  if (id === undefined || id.length > LIMITS.clientRequestIdLengthMax) return undefined;
  return PRINTABLE_ASCII.test(id) ? id : undefined;
}
