import type { ErrorDetail } from "@rowhouse/protocol/errors";
import { escapeText, printLeaf, XML_DECLARATION } from "../xml/print-xml.ts";

/** What an error body says, whichever form it takes. */
export interface ErrorBody {
  readonly code: string;
  /** Without the lines that follow it on the wire. */
  readonly message: string;
  /** The value of `x-ms-request-id`. */
  readonly requestId: string;
  /** See `printErrorTime`. */
  readonly time: string;
  /** Printed by the queue and blob form only. */
  readonly details?: readonly ErrorDetail[];
}

/** UTC with exactly seven fraction digits, unlike any other time of the table service. */
export function printErrorTime(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, -1)}0000Z`;
}

/** `odata.error`: what the table service sends to clients that read JSON, in batches too. */
export function tableErrorJson(body: ErrorBody): string {
  const value = quote(fullMessage(body));
  return `{"odata.error":{"code":${quote(body.code)},"message":{"lang":"en-US","value":${value}}}}`;
}

/** `m:error`: the table service's ACL and service operations, and its refusals of credentials. No byte order mark. */
export function tableErrorXml(body: ErrorBody): string {
  return (
    XML_DECLARATION +
    '<m:error xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata">' +
    printLeaf("m:code", body.code) +
    `<m:message xml:lang="en-US">${escapeText(fullMessage(body))}</m:message></m:error>`
  );
}

/** `Error`: the queue and blob services, with the details of the code as further elements. */
export function storageErrorXml(body: ErrorBody): string {
  const details = body.details ?? [];
  return (
    `${XML_DECLARATION}<Error>` +
    printLeaf("Code", body.code) +
    printLeaf("Message", fullMessage(body)) +
    details.map(([name, value]) => printLeaf(name, value)).join("") +
    "</Error>"
  );
}

function fullMessage({ message, requestId, time }: ErrorBody): string {
  return `${message}\nRequestId:${requestId}\nTime:${time}`;
}

/** A JSON string as the service writes it: what is not ASCII as `\uXXXX` in lower case. */
function quote(text: string): string {
  return JSON.stringify(text).replace(
    /[^\u0020-\u007e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
