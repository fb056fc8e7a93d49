import type { ErrorDetail } from "@rowhouse/protocol/errors";
import {
  escapeText,
  printDocument,
  printElement,
  printLeaf,
  XML_DECLARATION,
} from "../xml/print-xml.ts";

/** The content of an error body, whatever its form. */
export interface ErrorBody {
  readonly code: string;
  /** Without the lines that follow it on the wire. */
  readonly message: string;
  /** The value of `x-ms-request-id`. */
  readonly requestId: string;
  /** See `printErrorTime`. */
  readonly time: string;
  /** Printed only in the queue and blob form. */
  readonly details?: readonly ErrorDetail[];
}

/** UTC with exactly seven fraction digits, unlike every other time of the Table service. */
export function printErrorTime(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, -1)}0000Z`;
}

/** `odata.error`: sent by the Table service to clients that read JSON, also inside batches. */
export function tableErrorJson(body: ErrorBody): string {
  const value = quote(fullMessage(body));
  return `{"odata.error":{"code":${quote(body.code)},"message":{"lang":"en-US","value":${value}}}}`;
}

/**
 * `m:error`: sent by the Table service's ACL and service operations, and when it refuses credentials. No byte
 * order mark.
 */
export function tableErrorXml(body: ErrorBody): string {
  return (
    XML_DECLARATION +
    '<m:error xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata">' +
    printLeaf("m:code", body.code) +
    `<m:message xml:lang="en-US">${escapeText(fullMessage(body))}</m:message></m:error>`
  );
}

/** `Error`: the queue and blob form, with the error's details as further elements. */
export function storageErrorXml(body: ErrorBody): string {
  const details = body.details ?? [];
  return printDocument(
    printElement(
      "Error",
      printLeaf("Code", body.code) +
        printLeaf("Message", fullMessage(body)) +
        details.map(([name, value]) => printLeaf(name, value)).join(""),
    ),
  );
}

function fullMessage({ message, requestId, time }: ErrorBody): string {
  return `${message}\nRequestId:${requestId}\nTime:${time}`;
}

/** A JSON string as the service writes it, with non-ASCII characters as `\uXXXX` in lower case. */
function quote(text: string): string {
  return JSON.stringify(text).replace(
    /[^\u0020-\u007e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
