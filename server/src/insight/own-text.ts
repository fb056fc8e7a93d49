/**
 * A copy that keeps nothing else alive: a part of a string holds on to the whole, which may be a URL of
 * 64 KiB. For what outlives its request.
 */
export function ownText(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}
