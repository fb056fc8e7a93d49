import { ServiceError } from "@rowhouse/protocol/errors";
import { parseHttpDate } from "@rowhouse/protocol/http-date";
import { headerValues, listHeader } from "../wire/header-values.ts";
import type { RequestHead } from "../wire/operation.ts";
import { etagOf, lastModifiedOf } from "./validators.ts";

/** What a request's conditional headers require of the blob. Times are in seconds since 1970. */
export interface Conditions {
  readonly ifMatch: Etags | undefined;
  readonly ifNoneMatch: Etags | undefined;
  readonly ifModifiedSince: number | undefined;
  readonly ifUnmodifiedSince: number | undefined;
}

/** ETags without quotation marks, any of which may match; or "*", any existing blob. */
type Etags = "*" | readonly string[];

/**
 * The conditions of a read.
 * @throws ServiceError UnsatisfiableCondition for `If-None-Match: *`, whether or not there is a blob.
 */
export function readConditions(head: RequestHead): Conditions {
  const conditions = conditionsOf(head, "");
  if (conditions.ifNoneMatch === "*") throw new ServiceError("UnsatisfiableCondition");
  return conditions;
}

/**
 * The conditions of a write: one ETag, one date, or an ETag with the date that it overrides.
 * @throws ServiceError MultipleConditionHeadersNotSupported, NotImplemented for conditions on tags.
 */
export function writeConditions(head: RequestHead): Conditions {
  const all = conditionsOf(head, "");
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = all;
  const isPair =
    (ifMatch !== undefined && (ifNoneMatch !== undefined || ifModifiedSince !== undefined)) ||
    (ifUnmodifiedSince !== undefined &&
      (ifNoneMatch !== undefined || ifModifiedSince !== undefined));
  if (isPair || isList(ifMatch) || isList(ifNoneMatch)) {
    throw new ServiceError("MultipleConditionHeadersNotSupported");
  }
  return {
    ...all,
    ifModifiedSince: ifNoneMatch === undefined ? ifModifiedSince : undefined,
    ifUnmodifiedSince: ifMatch === undefined ? ifUnmodifiedSince : undefined,
  };
}

/** The conditions that a copy sets on its source. */
export function sourceConditions(head: RequestHead): Conditions {
  return conditionsOf(head, "x-ms-source-");
}

/** Containers support only the date conditions. */
export function dateConditions(head: RequestHead): Conditions {
  return { ...conditionsOf(head, ""), ifMatch: undefined, ifNoneMatch: undefined };
}

/**
 * Checks a read of a blob last changed at `modified`.
 * @throws ServiceError ConditionNotMet, with status 304 where the caller has the current version.
 */
export function checkReadConditions(conditions: Conditions, modified: number): void {
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = conditions;
  if (ifMatch !== undefined && !includes(ifMatch, modified)) throw notMet();
  if (isModifiedAfter(ifUnmodifiedSince, modified)) throw notMet();
  const isNew = ifNoneMatch === undefined ? undefined : !includes(ifNoneMatch, modified);
  const isNewer =
    ifModifiedSince === undefined ? undefined : isModifiedAfter(ifModifiedSince, modified);
  // If both were sent, one that holds is enough.
  if (isNew === true || isNewer === true || (isNew === undefined && isNewer === undefined)) return;
  throw notModified(modified);
}

/**
 * Checks a write. An absent blob meets every condition but `If-Match`.
 * @param modified undefined when there is no blob
 * @throws ServiceError ConditionNotMet.
 */
export function checkWriteConditions(conditions: Conditions, modified: number | undefined): void {
  if (!holds(conditions, modified)) throw notMet();
}

/**
 * The same for writes that may create the blob.
 * @throws ServiceError ConditionNotMet, or BlobAlreadyExists for `If-None-Match: *`.
 */
export function checkCreateConditions(conditions: Conditions, modified: number | undefined): void {
  if (holds(conditions, modified)) return;
  throw conditions.ifNoneMatch === "*" ? new ServiceError("BlobAlreadyExists") : notMet();
}

/** The same conditions, but for the one that there is no blob. */
export function withoutAbsence(conditions: Conditions): Conditions {
  return conditions.ifNoneMatch === "*" ? { ...conditions, ifNoneMatch: undefined } : conditions;
}

/** @throws ServiceError SourceConditionNotMet. */
export function checkSourceConditions(conditions: Conditions, modified: number): void {
  if (!holds(conditions, modified)) throw new ServiceError("SourceConditionNotMet");
}

function holds(conditions: Conditions, modified: number | undefined): boolean {
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = conditions;
  if (modified === undefined) return ifMatch === undefined;
  if (ifMatch !== undefined && !includes(ifMatch, modified)) return false;
  if (ifNoneMatch !== undefined && includes(ifNoneMatch, modified)) return false;
  if (ifModifiedSince !== undefined && !isModifiedAfter(ifModifiedSince, modified)) return false;
  return !isModifiedAfter(ifUnmodifiedSince, modified);
}

/** @throws ServiceError NotImplemented, and MultipleConditionHeadersNotSupported for a date sent twice. */
function conditionsOf(head: RequestHead, prefix: "" | "x-ms-source-"): Conditions {
  if (head.header("x-ms-if-tags") !== undefined || head.header("x-ms-source-if-tags") !== undefined)
    throw new ServiceError("NotImplemented");
  return {
    ifMatch: etagsOf(listHeader(head, `${prefix}if-match`), STRONG_ETAG),
    ifNoneMatch: etagsOf(listHeader(head, `${prefix}if-none-match`), ANY_ETAG),
    ifModifiedSince: secondsOf(head, `${prefix}if-modified-since`),
    ifUnmodifiedSince: secondsOf(head, `${prefix}if-unmodified-since`),
  };
}

/**
 * A cache that compresses what it stores makes the ETag weak. A weak ETag may ask whether there is a newer
 * version, but must not guard a change, since the bytes may differ: RFC 9110, 13.1.
 */
const STRONG_ETAG = /^"(.*)"$/;
const ANY_ETAG = /^(?:[Ww]\/)?"(.*)"$/;

function etagsOf(header: string | undefined, form: RegExp): Etags | undefined {
  if (header === undefined || header === "") return undefined;
  if (header === "*") return "*";
  return header.split(",").map((each) => each.trim().replace(form, "$1"));
}

/** A malformed date is ignored. */
function secondsOf(head: RequestHead, name: string): number | undefined {
  const header = head.header(name);
  if (header === undefined) return undefined;
  // Whichever of them counted, the other would be lost.
  if (headerValues(head, name).length > 1) {
    throw new ServiceError("MultipleConditionHeadersNotSupported");
  }
  const milliseconds = parseHttpDate(header);
  return milliseconds === undefined ? undefined : milliseconds / 1000;
}

function isList(etags: Etags | undefined): boolean {
  return etags !== undefined && etags !== "*" && etags.length > 1;
}

function includes(etags: Etags, modified: number): boolean {
  return etags === "*" || etags.includes(etagOf(modified));
}

/** Compares whole seconds, the precision of Last-Modified. */
function isModifiedAfter(seconds: number | undefined, modified: number): boolean {
  return seconds !== undefined && Math.floor(modified / 1e6) > seconds;
}

function notMet(): ServiceError {
  return new ServiceError("ConditionNotMet");
}

function notModified(modified: number): ServiceError {
  return new ServiceError("ConditionNotMet", {
    status: 304,
    headers: [
      ["ETag", `"${etagOf(modified)}"`],
      ["Last-Modified", lastModifiedOf(modified)],
    ],
  });
}
