import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead, WireResponse } from "../wire/operation.ts";
import type { CorsRule } from "../xml/cors-rules.ts";

/**
 * Cross-origin resource sharing for all three services. Rules are tried in stored order: the first that
 * allows the origin and the method applies, whatever it says about headers.
 * Source: "Cross-Origin Resource Sharing (CORS) support for Azure Storage".
 */

/**
 * Answers OPTIONS on any path, which needs no credentials and no existing resource. `starCredentials`:
 * whether the answer for a `*` rule also carries `Access-Control-Allow-Credentials`, as it does for queues
 * and blobs but not for tables.
 * @throws ServiceError InvalidHeaderValue or CorsPreflightFailure.
 */
export function preflightResponse(
  rules: readonly CorsRule[],
  head: Pick<RequestHead, "header">,
  { starCredentials }: { readonly starCredentials: boolean },
): WireResponse {
  const origin = head.header("origin");
  const method = head.header("access-control-request-method");
  if (!origin || !method) {
    throw new ServiceError("InvalidHeaderValue", { message: ERROR_TEXTS.corsHeaderMissing });
  }
  const requested = head.header("access-control-request-headers");
  const rule = rules.find((candidate) => allows(candidate, origin, method));
  if (rule === undefined || !allowsHeaders(rule, requested)) throw preflightFailure();

  const isStar = rule.allowedOrigins.includes("*");
  const headers = ["Access-Control-Allow-Origin", isStar ? "*" : origin];
  headers.push("Access-Control-Allow-Methods", method);
  if (requested) headers.push("Access-Control-Allow-Headers", requested);
  headers.push("Access-Control-Max-Age", String(rule.maxAgeSeconds));
  if (!isStar || starCredentials) headers.push("Access-Control-Allow-Credentials", "true");
  return { status: 200, headers };
}

/** What CORS needs of an actual request: the verb on the wire, and `Origin` if it was sent. */
export interface CorsRequest {
  readonly method: string;
  readonly origin: string | undefined;
}

/**
 * The CORS headers, alternating names and values, to add to the answer of an actual request, whether a
 * success or an error. `headers` are those the answer already has: the candidates for exposure.
 */
export function corsHeaders(
  rules: readonly CorsRule[],
  request: CorsRequest,
  headers: readonly string[],
): readonly string[] {
  if (rules.length === 0) return NONE;
  const { method, origin } = request;
  const isRead = method === "GET" || method === "HEAD";
  if (!origin && !isRead) return NONE;
  // A cache may store an answer to a request without an origin for every origin, so only `*` rules count.
  const rule = rules.find((candidate) => allows(candidate, origin || "*", method));
  if (rule === undefined) return isRead ? VARY : NONE;

  const exposed = exposedNames(rule, headers);
  const expose = exposed === "" ? NONE : ["Access-Control-Expose-Headers", exposed];
  if (!origin || rule.allowedOrigins.includes("*")) {
    return ["Access-Control-Allow-Origin", "*", ...expose];
  }
  return [
    ...(isRead ? VARY : NONE),
    "Access-Control-Allow-Origin",
    origin,
    ...expose,
    "Access-Control-Allow-Credentials",
    "true",
  ];
}

const NONE: readonly string[] = [];
/** Other methods are never cached, so their answers need no `Vary`. */
const VARY: readonly string[] = ["Vary", "Origin"];

function allows(rule: CorsRule, origin: string, method: string): boolean {
  const { allowedOrigins, allowedMethods } = rule;
  return (
    allowedMethods.includes(method) &&
    allowedOrigins.some((allowed) => allowsOrigin(allowed, origin))
  );
}

/** An origin's first label may be a wildcard, which stands for one or more labels but never for none. */
function allowsOrigin(allowed: string, origin: string): boolean {
  if (allowed === "*" || allowed === origin) return true;
  const star = allowed.indexOf("://*.");
  if (star < 0) return false;
  const scheme = allowed.slice(0, star + "://".length);
  const domain = allowed.slice(star + "://*".length);
  if (!origin.startsWith(scheme) || !origin.endsWith(domain)) return false;
  return LABELS.test(origin.slice(scheme.length, -domain.length));
}

const LABELS = /^[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/;

function allowsHeaders(rule: CorsRule, requested: string | undefined): boolean {
  if (!requested) return true;
  return requested.split(",").every((name) => matches(rule.allowedHeaders, name.trim()));
}

/** The names among `headers` that the rule exposes to scripts, spelled as in `headers`. */
function exposedNames(rule: CorsRule, headers: readonly string[]): string {
  const names = new Set<string>();
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index]!;
    if (matches(rule.exposedHeaders, name)) names.add(name);
  }
  return [...names].join(",");
}

function matches(patterns: readonly string[], name: string): boolean {
  const lower = name.toLowerCase();
  return patterns.some((pattern) =>
    pattern.endsWith("*")
      ? lower.startsWith(pattern.slice(0, -1).toLowerCase())
      : lower === pattern.toLowerCase(),
  );
}

function preflightFailure(): ServiceError {
  return new ServiceError("CorsPreflightFailure", {
    details: [["MessageDetails", "No CORS rule matches this request."]],
  });
}
