import { ServiceError } from "./errors.ts";

/**
 * Continuation tokens: `1!<length>!<base64>`, where the base64 of the UTF-8 bytes is written with
 * characters that need no escaping in a query. The token names the first key of the next page.
 */
export function encodeContinuation(text: string): string {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  const base64 = btoa(binary).replace(/[+/=]/g, (char) => WRITTEN[char]!);
  return `1!${base64.length}!${base64}`;
}

/**
 * An empty token is the empty text: a client sends it back for an empty key.
 * @throws ServiceError InvalidInput for a token this service cannot have issued.
 */
export function decodeContinuation(token: string): string {
  if (token === "") return "";
  const match = /^1!(\d{1,6})!([A-Za-z0-9+/*_=-]*)$/.exec(token);
  if (match === null || Number(match[1]) !== match[2]!.length) {
    throw new ServiceError("InvalidInput");
  }
  try {
    const binary = atob(match[2]!.replace(/[*_-]/g, (char) => READ[char]!));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new ServiceError("InvalidInput", { cause });
  }
}

/**
 * Table tokens contain the lower-cased name. Azure appends U+0001 and a creation stamp, which we
 * skip when reading and do not write.
 */
export function decodeTableContinuation(token: string): string {
  const text = decodeContinuation(token);
  const stamp = text.indexOf("\u0001");
  return stamp < 0 ? text : text.slice(0, stamp);
}

// Only the replacement of "=" was observed. The other two are our choice; unreplaced forms are accepted too.
const WRITTEN: Record<string, string> = { "+": "*", "/": "_", "=": "-" };
const READ: Record<string, string> = { "*": "+", _: "/", "-": "=" };
