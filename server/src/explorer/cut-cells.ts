import { isAscii } from "node:buffer";

/**
 * Cuts long strings of a list of entities, so that a browser need not hold what a cell cannot show. A string of more
 * than `lengthMax` characters keeps its first ones and gets an annotation beside it with its whole length:
 *
 *     "Cast":"Ann, Bob, Cy…"   becomes   "Cast":"Ann","Cast@rowhouse.length":1234
 *
 * Keys and everything else stay as they are, byte for byte: numbers keep their digits. Bytes, not text: to decode a list of
 * long strings takes four times as long as to cut it.
 * @param json as the Table service writes it: valid, without white space between tokens
 */
export function cutCells(json: Buffer, lengthMax: number): Buffer {
  const pieces: Buffer[] = [];
  let copied = 0;
  let name = "";
  for (let at = json.indexOf(QUOTE); at >= 0; at = json.indexOf(QUOTE, at)) {
    const end = endOfString(json, at + 1);
    if (json[end + 1] === COLON) name = json.toString("utf8", at + 1, end);
    else if (end - at - 1 > lengthMax && !WHOLE.test(name)) {
      const { length, begin } = shorten(json.subarray(at, end + 1), lengthMax);
      if (length > lengthMax) {
        const value = `${JSON.stringify(begin)},"${name}@rowhouse.length":${length}`;
        pieces.push(json.subarray(copied, at), Buffer.from(value));
        copied = end + 1;
      }
    }
    at = end + 1;
  }
  return copied === 0 ? json : Buffer.concat([...pieces, json.subarray(copied)]);
}

/** How many characters a JSON string has, and the first of them. */
function shorten(quoted: Buffer, lengthMax: number): { length: number; begin: string } {
  // Plain text has a character in each byte.
  if (isAscii(quoted) && !quoted.includes(BACKSLASH))
    return { length: quoted.length - 2, begin: quoted.toString("latin1", 1, 1 + lengthMax) };
  const value = JSON.parse(quoted.toString("utf8")) as string;
  return { length: value.length, begin: value.slice(0, lengthMax).replace(HALF_PAIR, "") };
}

/** What a row is found again by, and what describes values. */
const WHOLE = /^(?:PartitionKey|RowKey|Timestamp|odata\..*)$|@/;
const HALF_PAIR = /[\ud800-\udbff]$/;
const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
/** Most strings are short, and then a call of indexOf takes longer than looking. */
const SHORT = 48;

/** The index of the closing quote. */
function endOfString(json: Buffer, start: number): number {
  for (let i = start; i < start + SHORT; i++) {
    const byte = json[i];
    if (byte === QUOTE) return i;
    if (byte === BACKSLASH) i++;
  }
  for (let end = json.indexOf(QUOTE, start); ; end = json.indexOf(QUOTE, end + 1)) {
    let slashes = 0;
    while (json[end - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
}
