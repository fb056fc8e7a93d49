import assert from "node:assert/strict";
import { it } from "node:test";
import { tableNameOf } from "./file-to-import.ts";

it("A table for a file is called as the file is, as far as a table may be", () => {
  for (const [file, table] of [
    ["people.csv", "People"],
    ["2026 first films (1).jsonl", "Firstfilms1"],
    ["é.csv", "Table"],
    ["42.csv", "Table42"],
    [`${"x".repeat(80)}.csv`, `X${"x".repeat(62)}`],
  ] as const) {
    assert.equal(tableNameOf(file), table);
    assert.match(table, /^[A-Za-z][A-Za-z0-9]{2,62}$/);
  }
});
