import type { AuthDialect } from "../auth/dialect.ts";
import type { RequestHead } from "../operation.ts";
import { invalidHeader, missingHeader } from "./header-values.ts";

/** What queues and blobs say to those who name no version and need not: the newest the official clients send. */
export const NEWEST_VERSION = "2026-04-06";

/**
 * The protocol version a request is processed by: `x-ms-version`, else `api-version`, else the
 * token's `sv`. Any date a version could be published on is good, newer ones than we know included.
 * @throws ServiceError InvalidHeaderValue or MissingRequiredHeader.
 */
export function versionOf(head: RequestHead, dialect: AuthDialect): string {
  const header = head.header("x-ms-version");
  if (header !== undefined) return checked("x-ms-version", header, dialect);
  const parameter = head.query.get("api-version") ?? head.query.get("sv");
  if (parameter !== undefined) return checked("api-version", parameter, dialect);
  if (dialect.versionAbsent !== undefined) return dialect.versionAbsent;
  throw missingHeader("x-ms-version");
}

/** What the answer to a caller who was not served says: their version if it is one, else `otherwise`. */
export function versionForStranger(head: Pick<RequestHead, "header">, otherwise: string): string {
  const header = head.header("x-ms-version");
  return header !== undefined && VERSION.test(header) ? header : otherwise;
}

const VERSION = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/;

function checked(name: string, version: string, dialect: AuthDialect): string {
  if (VERSION.test(version) && version >= dialect.versionMin) return version;
  throw invalidHeader(name, version);
}
