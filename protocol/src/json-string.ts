/**
 * JSON strings as the services write them and as stored entities hold them: `"`, `\` and control
 * characters are escaped, everything else is literal UTF-8. A text has one form, so equal texts are
 * equal bytes. (A lone surrogate, which UTF-8 cannot encode, keeps its `\ud800` escape.)
 */
export function encodeJsonString(text: string): string {
  return JSON.stringify(text);
}

/** The text of the JSON string `bytes[start, end)`, quotes included, which must be well-formed. */
export function decodeJsonString(bytes: Uint8Array, start: number, end: number): string {
  const inside = decodeUtf8(bytes, start + 1, end - 1);
  return inside.includes("\\") ? JSON.parse(`"${inside}"`) : inside;
}

/** The text of `bytes[start, end)`. */
export function decodeUtf8(bytes: Uint8Array, start: number, end: number): string {
  return decoder.decode(bytes.subarray(start, end));
}

// A text may begin with U+FEFF, which is not a byte order mark there.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
