import { isProtocolVersion } from "@rowhouse/protocol/protocol-version";
import { SAS_VERSIONS } from "@rowhouse/protocol/sas";
import { invalidHeader, missingHeader } from "../wire/header-values.ts";
import type { RequestHead } from "../wire/operation.ts";
import type { AuthDialect } from "./dialect.ts";
import { namedVersion } from "./named-version.ts";

/**
 * The `x-ms-version` queues and blobs send to callers that name none and need none: the newest the official
 * clients send.
 */
export const NEWEST_VERSION = "2026-04-06";

/**
 * The protocol version a request is processed by: the one it names, else the service's default. Any
 * well-formed date is accepted, including versions newer than the known ones.
 * @throws ServiceError InvalidHeaderValue or MissingRequiredHeader.
 */
export function versionOf(head: RequestHead, dialect: AuthDialect): string {
  const version = namedVersion(head) ?? dialect.versionAbsent;
  if (version === undefined) throw missingHeader("x-ms-version");
  if (isServed(version, dialect) || isOfOldLink(version, head)) return version;
  const isInHeader = head.header("x-ms-version") !== undefined;
  throw invalidHeader(isInHeader ? "x-ms-version" : "api-version", version);
}

/** The same for a caller refused before its version was read: "" if it names none that is valid. */
export function versionOfRefused(head: RequestHead, dialect: AuthDialect): string {
  const version = namedVersion(head);
  return version !== undefined && isServed(version, dialect) ? version : "";
}

function isServed(version: string, dialect: AuthDialect): boolean {
  return isProtocolVersion(version) && version >= dialect.versionMin;
}

/** A link with an old SAS works as long as its holder wants nothing newer: it has no say in the version. */
function isOfOldLink(version: string, head: RequestHead): boolean {
  const isNamed =
    head.header("x-ms-version") !== undefined || head.query.get("api-version") !== undefined;
  return !isNamed && isProtocolVersion(version) && version >= SAS_VERSIONS.serviceMin;
}

/**
 * The version in the answer to a caller that was not served: the one it sent if that is valid, else `otherwise`.
 */
export function sentVersionOr(head: Pick<RequestHead, "header">, otherwise: string): string {
  const header = head.header("x-ms-version");
  return header !== undefined && isProtocolVersion(header) ? header : otherwise;
}
