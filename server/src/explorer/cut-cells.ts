/**
 * Cuts long strings of a list of entities, so that a browser need not hold what a cell cannot show. A string of more
 * than `lengthMax` characters keeps its first ones and gets an annotation beside it with its whole length:
 *
 *     "Cast":"Ann, Bob, Cy…"   becomes   "Cast":"Ann","Cast@rowhouse.length":1234
 *
 * Keys and everything else stay as they are, byte for byte: numbers keep their digits.
 * @param json as the Table service writes it: valid, without white space between tokens
 */
export function cutCells(json: string, lengthMax: number): string {
  let cut = "";
  let copied = 0;
  let name = "";
  for (let at = json.indexOf('"'); at >= 0; at = json.indexOf('"', at)) {
    const end = endOfString(json, at + 1);
    const isName = json[end + 1] === ":";
    if (isName) name = json.slice(at + 1, end);
    else if (end - at - 1 > lengthMax && !WHOLE.test(name)) {
      const value = JSON.parse(json.slice(at, end + 1)) as string;
      if (value.length > lengthMax) {
        const start = JSON.stringify(value.slice(0, lengthMax).replace(HALF_PAIR, ""));
        cut += `${json.slice(copied, at)}${start},"${name}@rowhouse.length":${value.length}`;
        copied = end + 1;
      }
    }
    at = end + 1;
  }
  return copied === 0 ? json : cut + json.slice(copied);
}

/** What a row is found again by, and what describes values. */
const WHOLE = /^(?:PartitionKey|RowKey|Timestamp|odata\..*)$|@/;
const HALF_PAIR = /[\ud800-\udbff]$/;

/** The index of the closing quote. */
function endOfString(json: string, start: number): number {
  for (let end = json.indexOf('"', start); ; end = json.indexOf('"', end + 1)) {
    let slashes = 0;
    while (json[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end;
  }
}
