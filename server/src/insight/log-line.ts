import { withoutSignature } from "@rowhouse/protocol/without-signature";
import type { RequestRecord } from "../wire/observer.ts";
import type { WireRequest, WireResponse } from "../wire/operation.ts";
import { callerOf, outcomeOf } from "./request-outcome.ts";

/** The parts of a request, besides its record, that a line contains. */
export type LoggedRequest = Pick<
  WireRequest,
  "account" | "arrivedAt" | "baseUrl" | "header" | "query" | "rawHeaders" | "rawPath" | "version"
>;

export type LoggedResponse = Pick<WireResponse, "headers">;

/**
 * Prints a request as a line of the analytics log, version 1.0: thirty fields separated by semicolons. Client
 * input is quoted or was checked before, so it cannot pass for other fields.
 * Source: "Storage Analytics log format".
 */
export function printLogLine(
  record: RequestRecord,
  request: LoggedRequest,
  response: LoggedResponse,
): string {
  const { account, baseUrl, rawPath, query } = request;
  // A base URL with a path already names the account first.
  const slash = baseUrl.indexOf("/", "https://".length);
  const origin = slash < 0 ? baseUrl : baseUrl.slice(0, slash);
  const key = slash < 0 ? `/${account.name}${rawPath}` : rawPath;
  const search = query.raw === "" ? "" : `?${withoutSignature(query.raw)}`;
  const latency = String(Math.round(record.durationMs));
  const length = request.header("content-length") ?? "";
  return [
    "1.0",
    new Date(request.arrivedAt).toISOString().replace("Z", "0000Z"),
    record.operation || "Unknown",
    statusOf(record),
    record.status,
    latency,
    latency,
    authenticationOf(record),
    isKnown(record) ? account.name : "",
    account.name,
    record.service,
    quoted(origin + rawPath + search),
    quoted(key),
    record.requestId,
    0,
    record.remoteAddress,
    request.version,
    headerBytes(request.rawHeaders),
    record.requestBytes,
    headerBytes(response.headers),
    record.responseBytes,
    /^\d+$/.test(length) ? length : "",
    quoted(request.header("content-md5")),
    quoted(sent(response, "Content-MD5")),
    quoted(sent(response, "ETag")),
    printModified(sent(response, "Last-Modified")),
    quoted(conditionsOf(request)),
    quoted(request.header("user-agent")),
    quoted(refererOf(request)),
    quoted(record.clientRequestId),
  ].join(";");
}

/**
 * The outcome in the words of the log, except that authorization errors of callers without credentials are
 * not called anonymous.
 */
function statusOf(record: RequestRecord): string {
  const outcome = outcomeOf(record);
  const caller = callerOf(record);
  return caller === "Anonymous" && outcome === "AuthorizationError" ? outcome : caller + outcome;
}

function authenticationOf(record: RequestRecord): string {
  const caller = callerOf(record);
  return caller === "" ? "authenticated" : caller === "SAS" ? caller : "anonymous";
}

function isKnown(record: RequestRecord): boolean {
  return callerOf(record) === "";
}

/** The page that shows a blob may itself have been opened with a signature. */
function refererOf(request: LoggedRequest): string {
  const [page, ...queries] = (request.header("referer") ?? "").split("?");
  return [page, ...queries.map(withoutSignature)].join("?");
}

const CONDITIONS = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];

function conditionsOf(request: LoggedRequest): string {
  return CONDITIONS.flatMap((name) => {
    const value = request.header(name.toLowerCase());
    return value === undefined ? [] : [`${name}=${value}`];
  }).join(";");
}

/** Empty for an empty or absent value. */
function quoted(text: string | undefined): string {
  if (text === undefined || text === "") return "";
  return `"${UNSAFE.test(text) ? text.replace(UNSAFE_ALL, encode) : text}"`;
}

const UNSAFE_ALL = /[&<>"\p{Cc}\u2028\u2029]/gu;
const UNSAFE = new RegExp(UNSAFE_ALL.source, "u");
const NAMED: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

function encode(character: string): string {
  return NAMED[character] ?? `&#${character.charCodeAt(0)};`;
}

/** `Friday, 20-Nov-26 14:05:30 GMT`, from a date as headers have it. */
function printModified(date: string | undefined): string {
  if (date === undefined || Number.isNaN(Date.parse(date))) return "";
  const at = new Date(date);
  const [, day, month, year, time] = at.toUTCString().split(" ");
  return `${WEEKDAYS[at.getUTCDay()]}, ${day}-${month}-${year!.slice(2)} ${time} GMT`;
}

const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

function sent({ headers }: LoggedResponse, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}

/** Alternating names and values, each with its two bytes of separator. */
function headerBytes(headers: readonly string[]): number {
  return headers.reduce((sum, text) => sum + text.length + 2, 0);
}
