import { isProtocolVersion } from "@rowhouse/protocol/protocol-version";
import type { AuthDialect } from "../auth/dialect.ts";
import { namedVersion } from "../auth/named-version.ts";
import type { RequestHead } from "../operation.ts";
import { invalidHeader, missingHeader } from "./header-values.ts";

/** What queues and blobs say to those who name no version and need not: the newest the official clients send. */
export const NEWEST_VERSION = "2026-04-06";

/**
 * The protocol version a request is processed by: what it names, else what the service
 * takes for that. Any date a version could be published on is good, newer ones than we know included.
 * @throws ServiceError InvalidHeaderValue or MissingRequiredHeader.
 */
export function versionOf(head: RequestHead, dialect: AuthDialect): string {
  const version = namedVersion(head) ?? dialect.versionAbsent;
  if (version === undefined) throw missingHeader("x-ms-version");
  if (isServed(version, dialect)) return version;
  const isInHeader = head.header("x-ms-version") !== undefined;
  throw invalidHeader(isInHeader ? "x-ms-version" : "api-version", version);
}

/**
 * The same for a caller who is refused before it is read: empty where it is none.
 */
export function versionOfRefused(head: RequestHead, dialect: AuthDialect): string {
  const version = namedVersion(head);
  return version !== undefined && isServed(version, dialect) ? version : "";
}

function isServed(version: string, dialect: AuthDialect): boolean {
  return isProtocolVersion(version) && version >= dialect.versionMin;
}

/** What the answer to a caller who was not served says: their version if it is one, else `otherwise`. */
export function versionForStranger(head: Pick<RequestHead, "header">, otherwise: string): string {
  const header = head.header("x-ms-version");
  return header !== undefined && isProtocolVersion(header) ? header : otherwise;
}
