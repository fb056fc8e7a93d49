import { validationFailed } from "../errors.ts";

import { base64Of, bytesOf } from "../ports/edm.ts";
import type { Continuation } from "../ports/tables.ts";

/** What a cursor belongs to: it is refused by any other query. */
export interface CursorScope {
  readonly plan: string;
  readonly table: string;
  /** A hash of the filter. */
  readonly filterHash: string;
  /** Signs cursors, so that a client cannot make up where to continue. */
  readonly secret?: string | undefined;
}

const VERSION = 1;

export async function encodeCursor(scope: CursorScope, next: Continuation): Promise<string> {
  const content = { ...contentOf(scope), npk: next.partitionKey, nrk: next.rowKey };
  const payload = toBase64Url(utf8(JSON.stringify(content)));
  return scope.secret === undefined ? payload : `${payload}.${await sign(payload, scope.secret)}`;
}

/** @throws validation-failed for a cursor of another query, another version or another signer. */
export async function decodeCursor(scope: CursorScope, cursor: string): Promise<Continuation> {
  const [payload = "", signature] = cursor.split(".");
  if (scope.secret !== undefined && signature !== (await sign(payload, scope.secret)))
    throw refused("its signature is wrong");
  const { npk, nrk, ...content } = parse(payload);
  if (JSON.stringify(content) !== JSON.stringify(contentOf(scope)) || typeof npk !== "string") {
    throw refused("it belongs to another query, or is of another version");
  }
  return typeof nrk === "string" ? { partitionKey: npk, rowKey: nrk } : { partitionKey: npk };
}

/** What it says beside where to continue, in the order it is written. */
function contentOf({ plan, table, filterHash }: CursorScope) {
  return { v: VERSION, plan, table, filterHash };
}

function parse(payload: string): Record<string, unknown> {
  try {
    const bytes = bytesOf(payload.replaceAll("-", "+").replaceAll("_", "/"));
    const content: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof content === "object" && content !== null ? { ...content } : {};
  } catch {
    return {};
  }
}

async function sign(payload: string, secret: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", utf8(secret), algorithm, false, ["sign"]);
  return toBase64Url(new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(payload))));
}

function utf8(text: string) {
  return new TextEncoder().encode(text);
}

function toBase64Url(bytes: Uint8Array): string {
  return base64Of(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function refused(message: string): Error {
  return validationFailed("The cursor", "cursor", message);
}
