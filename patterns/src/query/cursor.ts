import { validationFailed } from "../errors.ts";

import { base64Of, bytesOf } from "../ports/edm.ts";
import type { Continuation } from "../ports/tables.ts";

/** The query that a cursor belongs to; every other query refuses it. */
export interface CursorScope {
  readonly plan: string;
  readonly table: string;
  /** A hash of the filter. */
  readonly filterHash: string;
  /** Signs cursors, so that a client cannot invent a position. */
  readonly secret?: string | undefined;
}

const VERSION = 1;

export async function encodeCursor(
  { plan, table, filterHash, secret }: CursorScope,
  { partitionKey: npk, rowKey: nrk }: Continuation,
): Promise<string> {
  const content = { v: VERSION, plan, table, filterHash, npk, nrk };
  const payload = toBase64Url(utf8(JSON.stringify(content)));
  return secret === undefined ? payload : `${payload}.${await sign(payload, secret)}`;
}

/** @throws validation-failed for a cursor of another query, another version or another signer. */
export async function decodeCursor(scope: CursorScope, cursor: string): Promise<Continuation> {
  const next = parse(cursor);
  // The cursor must be what we would have written for that position, signature included. With a secret, the
  // signatures of both are compared, so that the time this takes does not reveal how much of a forgery is
  // right.
  const print = async (text: string) => (scope.secret ? sign(text, scope.secret) : text);
  if (next && (await print(await encodeCursor(scope, next))) === (await print(cursor))) return next;
  throw validationFailed("The cursor", "cursor", "its query, version or signature does not match");
}

function parse(cursor: string): Continuation | undefined {
  try {
    // Inside the `try`, since a cursor from a request may not be a string.
    const [payload = ""] = cursor.split(".");
    const bytes = bytesOf(payload.replaceAll("-", "+").replaceAll("_", "/"));
    const { npk, nrk } = JSON.parse(new TextDecoder().decode(bytes));
    return { partitionKey: String(npk), ...(nrk !== undefined && { rowKey: String(nrk) }) };
  } catch {
    return undefined;
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
