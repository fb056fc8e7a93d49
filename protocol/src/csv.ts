/**
 * Comma-separated values after RFC 4180, in UTF-8: a cell that begins with a quote ends with one, with quotes in it
 * doubled, and may hold commas and line breaks. Lines end with LF or CRLF.
 */
export function printCsv(cells: readonly string[]): string {
  return `${cells.map(printCell).join(",")}\n`;
}

function printCell(text: string): string {
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The cells of one line; undefined for one that is not written like that. */
export function parseCsv(line: string): string[] | undefined {
  const cells: string[] = [];
  for (let at = 0; ; at++) {
    if (line[at] === '"') {
      const end = closingQuote(line, at + 1);
      if (end < 0) return undefined;
      cells.push(line.slice(at + 1, end).replaceAll('""', '"'));
      at = end + 1;
      if (at < line.length && line[at] !== ",") return undefined;
    } else {
      const comma = line.indexOf(",", at);
      const cell = line.slice(at, comma < 0 ? undefined : comma);
      if (cell.includes('"')) return undefined;
      cells.push(cell);
      at = comma < 0 ? line.length : comma;
    }
    if (at >= line.length) return cells;
  }
}

function closingQuote(line: string, from: number): number {
  let at = line.indexOf('"', from);
  while (at >= 0 && line[at + 1] === '"') at = line.indexOf('"', at + 2);
  return at;
}

/** Where in a cell a byte is. */
const BEGIN = 0;
const INSIDE = 1;
const QUOTED = 2;
/** Behind a quote within quotes: it ends the cell, or is the first of two. */
const CLOSED = 3;

/** Finds the line feeds that end a line, which those in quotes do not, in bytes that come piece by piece. */
export class CsvLines {
  #place = BEGIN;

  /**
   * The first line feed from `from` on that ends a line; -1 if none does, and then the next call goes on behind these
   * bytes.
   */
  readonly find = (bytes: Uint8Array, from: number): number => {
    let place = this.#place;
    for (let i = from; i < bytes.length; i++) {
      const byte = bytes[i];
      if (place === QUOTED) {
        if (byte === QUOTE) place = CLOSED;
      } else if (byte === LINE_FEED) {
        this.#place = BEGIN;
        return i;
      } else if (byte === COMMA) place = BEGIN;
      else place = byte === QUOTE && place !== INSIDE ? QUOTED : INSIDE;
    }
    this.#place = place;
    return -1;
  };
}

const LINE_FEED = 0x0a;
const QUOTE = 0x22;
const COMMA = 0x2c;
