/**
 * A copy that retains nothing else: a substring keeps the whole string in memory, which may be a URL of 64
 * KiB. For text that outlives its request. A browser, in which the explorer gives advice, keeps no requests and has no
 * `Buffer`.
 */
export function detachedString(text: string): string {
  if (typeof Buffer === "undefined") return text;
  return Buffer.from(text, "utf16le").toString("utf16le");
}
