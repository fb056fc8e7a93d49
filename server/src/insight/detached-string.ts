/**
 * A copy that retains nothing else: a substring keeps the whole string in memory, which may be a URL of 64
 * KiB. For text that outlives its request.
 */
export function detachedString(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}
