/**
 * Reads comma-separated values as RFC 4180 writes them: fields with commas, quotes or line ends are in quotes, and a
 * quote inside is doubled. Lines end with LF or CRLF.
 * @returns the rows with the line that each begins at, from 1
 * @throws Error for a quote that is not closed, or is followed by text
 */
export function* parseCsv(text: string): Generator<{ fields: string[]; line: number }> {
  const pattern = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  let line = 1;
  let begun = 1;
  let fields: string[] = [];
  // A byte order mark, as spreadsheets write it, is no part of the first name.
  pattern.lastIndex = text.startsWith("\uFEFF") ? 1 : 0;
  while (pattern.lastIndex < text.length) {
    const found = pattern.exec(text);
    if (!found) throw new Error(`line ${line} has a quote that is not closed or not doubled`);
    const [whole, quoted, plain = "", end] = found;
    fields.push(quoted?.replaceAll('""', '"') ?? plain);
    line += whole.split("\n").length - 1;
    if (end === ",") {
      // A comma at the very end is followed by an empty field.
      if (pattern.lastIndex === text.length) fields.push("");
      else continue;
    }
    if (fields.length > 1 || fields[0] !== "") yield { fields, line: begun };
    fields = [];
    begun = line;
  }
  if (fields.length > 0) yield { fields, line: begun };
}
