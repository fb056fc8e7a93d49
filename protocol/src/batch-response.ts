import { ERROR_TEXTS, type ErrorCode, ServiceError } from "./errors.ts";

/** One response inside the `$batch` response. */
export type BatchResponsePart =
  | {
      readonly kind: "inserted";
      readonly contentId?: string | undefined;
      readonly preferenceApplied?: "return-content" | "return-no-content" | undefined;
      readonly location: string;
      readonly etag: string;
      /** The entity, unless the client prefers no content: 201 with it, 204 without. */
      readonly content?: BatchContent | undefined;
    }
  /** Update, merge and the upserts. */
  | { readonly kind: "written"; readonly contentId?: string | undefined; readonly etag: string }
  | { readonly kind: "deleted"; readonly contentId?: string | undefined }
  | {
      readonly kind: "queried";
      /** Absent for a query of many entities. */
      readonly etag?: string | undefined;
      /** Further response headers, names and values alternating: the continuation, the cost of the query. */
      readonly headers?: readonly string[];
      readonly content: BatchContent;
    }
  | {
      readonly kind: "failed";
      readonly contentId?: string | undefined;
      readonly preferenceApplied?: "return-content" | "return-no-content" | undefined;
      readonly status: number;
      readonly code: ErrorCode;
      readonly content: BatchContent;
    };

export interface BatchContent {
  /** The whole `Content-Type`. */
  readonly type: string;
  readonly body: Uint8Array | string;
}

/** The response to a change set or to a query. A failed change set has one part, the failure. */
export type BatchResponse =
  | { readonly kind: "changeset"; readonly parts: readonly BatchResponsePart[] }
  | { readonly kind: "query"; readonly part: BatchResponsePart };

/** New GUIDs, not those of the request. A query uses only the first. */
export interface BatchResponseIds {
  readonly batch: string;
  readonly changeset: string;
}

/** The `Content-Type` of the whole response, whose status is always 202. */
export function batchResponseType({ batch }: BatchResponseIds): string {
  return `multipart/mixed; boundary=batchresponse_${batch}`;
}

/**
 * The body of that response. Clients parse it with regular expressions and by counting line breaks,
 * so boundary prefixes, header order and blank lines are those recorded from the service.
 */
export function printBatchResponse(response: BatchResponse, ids: BatchResponseIds): Uint8Array {
  const batch = `--batchresponse_${ids.batch}`;
  const changeset = `--changesetresponse_${ids.changeset}`;
  const chunks: Chunk[] = [];
  if (response.kind === "query") {
    chunks.push(`${batch}\r\n`);
    printPart(response.part, chunks);
  } else {
    const type = `Content-Type: multipart/mixed; boundary=${changeset.slice(2)}`;
    const delimiter = `${changeset}\r\n`;
    chunks.push(`${batch}\r\n${type}\r\n\r\n`);
    for (const part of response.parts) {
      chunks.push(delimiter);
      printPart(part, chunks);
    }
    chunks.push(`${changeset}--\r\n`);
  }
  chunks.push(`${batch}--\r\n`);
  return join(chunks);
}

/**
 * The message of a failure inside a batch: `3:The specified entity already exists.` The service
 * runs a change set of one operation as that operation alone, so errors about its entity carry no
 * index there.
 */
export function batchErrorMessage(
  error: { readonly code: ErrorCode; readonly message: string },
  place: BatchPosition,
): string {
  const isAlone = place.kind === "changeset" && place.operations === 1;
  if (isAlone && OF_THE_ENTITY.has(error.code)) return error.message;
  return `${place.index}:${error.message}`;
}

/** Where in a batch an operation failed, and how many operations the batch has. */
export interface BatchPosition {
  readonly kind: "changeset" | "query";
  readonly index: number;
  readonly operations: number;
}

/** Errors about the entity; all others concern the batch, its table or the caller's permissions. */
const OF_THE_ENTITY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "DuplicatePropertiesSpecified",
  "EntityAlreadyExists",
  "EntityTooLarge",
  "OutOfRangeInput",
  "PropertiesNeedValue",
  "PropertyNameInvalid",
  "PropertyNameTooLong",
  "PropertyValueTooLarge",
  "ResourceNotFound",
  "TooManyProperties",
  "UpdateConditionNotSatisfied",
]);

/** The error for more than 100 operations; the service stops counting at 99. */
export function tooManyOperations(): ServiceError {
  return new ServiceError("InvalidInput", { message: `99:${ERROR_TEXTS.tooManyOperations}` });
}

type Chunk = string | Uint8Array;

function printPart(part: BatchResponsePart, chunks: Chunk[]): void {
  const content = part.kind === "written" || part.kind === "deleted" ? undefined : part.content;
  chunks.push(
    "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
      `HTTP/1.1 ${statusLine(part)}\r\n${printHeaders(part)}\r\n`,
  );
  if (content !== undefined) chunks.push(content.body);
  chunks.push("\r\n");
}

/**
 * Two orders were recorded: responses with an entity begin with the headers that describe it,
 * others end with them.
 */
function printHeaders(part: BatchResponsePart): string {
  switch (part.kind) {
    case "inserted": {
      const { content, location, etag } = part;
      const start = opening(part.contentId);
      const preference = header("Preference-Applied", part.preferenceApplied);
      if (content !== undefined) {
        return `${describe(content)}${start}${preference}Location: ${location}\r\nETag: ${etag}\r\n`;
      }
      return `${start}${preference}${VERSION_3}Location: ${location}\r\nDataServiceId: ${location}\r\nETag: ${etag}\r\n`;
    }
    case "written":
      return opening(part.contentId) + VERSION_1 + header("ETag", part.etag);
    case "deleted":
      return opening(part.contentId) + VERSION_1;
    case "queried": {
      const headers = printPairs(part.headers ?? []);
      return describe(part.content) + opening(undefined) + headers + header("ETag", part.etag);
    }
    case "failed": {
      const preference = header("Preference-Applied", part.preferenceApplied);
      const start =
        part.code === "TableNotFound" ? opening(part.contentId, "") : opening(part.contentId);
      return start + preference + describe(part.content);
    }
  }
}

const VERSION_1 = "DataServiceVersion: 1.0;\r\n";
const VERSION_3 = "DataServiceVersion: 3.0;\r\n";
const NO_CACHE = "Cache-Control: no-cache\r\n";

function opening(contentId: string | undefined, caching = NO_CACHE): string {
  return `${header("Content-ID", contentId)}X-Content-Type-Options: nosniff\r\n${caching}`;
}

function describe(content: BatchContent): string {
  return VERSION_3 + header("Content-Type", content.type);
}

function printPairs(pairs: readonly string[]): string {
  let text = "";
  for (let index = 0; index < pairs.length; index += 2)
    text += header(pairs[index]!, pairs[index + 1]);
  return text;
}

function header(name: string, value: string | undefined): string {
  return value === undefined ? "" : `${name}: ${value}\r\n`;
}

function statusLine(part: BatchResponsePart): string {
  switch (part.kind) {
    case "inserted":
      return part.content === undefined ? "204 No Content" : "201 Created";
    case "written":
    case "deleted":
      return "204 No Content";
    case "queried":
      return "200 OK";
    case "failed":
      return `${part.status} ${reasonOf(part.status)}`;
  }
}

export function reasonOf(status: number): string {
  return REASONS[status] ?? "Error";
}

/** Standard reason phrases for every status in `ERRORS`. */
const REASONS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Payload Too Large",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
};

/** Adjacent strings are encoded together; byte arrays are copied once. */
function join(chunks: readonly Chunk[]): Uint8Array {
  const encoder = new TextEncoder();
  const arrays: Uint8Array[] = [];
  let text = "";
  for (const chunk of chunks) {
    if (typeof chunk === "string") {
      text += chunk;
      continue;
    }
    arrays.push(encoder.encode(text), chunk);
    text = "";
  }
  arrays.push(encoder.encode(text));
  if (arrays.length === 1) return arrays[0]!;
  const joined = new Uint8Array(arrays.reduce((sum, array) => sum + array.length, 0));
  let at = 0;
  for (const array of arrays) {
    joined.set(array, at);
    at += array.length;
  }
  return joined;
}
