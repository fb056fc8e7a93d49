import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { CsvLines, parseCsv, printCsv } from "./csv.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Lines, of a text that comes in pieces of some size. */
function linesOf(text: string, size: number): string[] {
  const bytes = bytesOf(text);
  const lines: string[] = [];
  const csv = new CsvLines();
  let rest: number[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    const piece = [...rest, ...bytes.subarray(at, at + size)];
    const all = Uint8Array.from(piece);
    let start = 0;
    for (let end = csv.find(all, rest.length); end >= 0; end = csv.find(all, start)) {
      lines.push(new TextDecoder("utf-8", { ignoreBOM: true }).decode(all.subarray(start, end)));
      start = end + 1;
    }
    rest = piece.slice(start);
  }
  assert.deepEqual(rest, []);
  return lines;
}

describe("Comma-separated values", () => {
  it("are read as they were written, in pieces of any size", () => {
    const cell = fc.oneof(
      fc.string({ unit: fc.constantFrom('"', ",", "\n", "\r", "a", "é", "😀", " ") }),
      fc.string({ unit: "grapheme" }),
    );
    const rows = fc.array(fc.array(cell, { minLength: 1, maxLength: 4 }), { maxLength: 5 });
    fc.assert(
      fc.property(rows, fc.integer({ min: 1, max: 9 }), (table, size) => {
        const lines = linesOf(table.map(printCsv).join(""), size);
        assert.deepEqual(lines.map(parseCsv), table);
      }),
    );
  });

  it("are refused where quotes are not at both ends of a cell", () => {
    for (const line of ['a"b', '"a', '"a"b', 'a,"b" ,c']) assert.equal(parseCsv(line), undefined);
    assert.deepEqual(parseCsv('"a ""b""",,'), ['a "b"', "", ""]);
    assert.deepEqual(parseCsv(""), [""]);
  });
});
