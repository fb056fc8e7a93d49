import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { placeAfter, readFilter } from "./filter-text.ts";

describe("Reading a filter", () => {
  it("says where an error is and what is allowed there", () => {
    for (const [text, offset, allowed] of [
      ["year gt gt", undefined, "A comparison has a property on one side"],
      ["startswith(title, 'D')", undefined, "The Table service has no functions"],
      ["year gt )", 9, "Allowed here: a value"],
      ["year gt", 7, "Allowed here: a value"],
      ["year gt 5 and", 13, "Allowed here: a property"],
      ["year gt 5 x", 11, "Allowed here: “and”, “or”"],
      ["(year gt 5", 10, "Allowed here: “and”, “or”"],
      ["year gt 'open", 13, "Allowed here: a value"],
      ["year 5", 6, "Allowed here: eq"],
      ["year gt #", 8, "Allowed here: a value"],
    ] as const) {
      const { problem } = readFilter(text);
      assert.equal(problem?.offset, offset, text);
      assert.ok(problem?.allowed.startsWith(allowed), `${text}: ${problem?.allowed}`);
    }
  });
});

describe("Completion", () => {
  it("knows what may be written next", () => {
    for (const [text, wants, from] of [
      ["", "operand", 0],
      ["Par", "operand", 0],
      ["Year ", "operator", 5],
      ["Year g", "operator", 5],
      ["Year gt ", "literal", 8],
      ["Year gt 19", "connective", 10],
      ["Year gt 1980 ", "connective", 13],
      ["Year gt 1980 an", "connective", 13],
      ["Year gt 1980 and ", "operand", 17],
      ["not (", "operand", 5],
      ["Name eq 'O''B", "literal", 8],
      ["When ge datetime'20", "literal", 8],
      ["eq eq ", "literal", 6],
      ["Year gt #", "nothing", 9],
    ] as const) {
      const place = placeAfter(text);
      assert.deepEqual([place.wants, place.from], [wants, from], text);
    }
    assert.equal(placeAfter("Name eq 'x").property, "Name");
  });
});
