import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { parseFilter } from "./filter-parser.ts";
import { printFilter } from "./filter-printer.ts";
import type { FilterNode, Literal } from "./filter-tree.ts";

const literals: fc.Arbitrary<Literal> = fc.oneof(
  fc.string({ unit: "grapheme" }).map((value) => ({ type: "Edm.String", value }) as const),
  fc.integer().map((value) => ({ type: "Edm.Int32", value }) as const),
  fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map((value) => ({ type: "Edm.Int64", value }) as const),
  fc.double().map((value) => ({ type: "Edm.Double", value }) as const),
  fc.boolean().map((value) => ({ type: "Edm.Boolean", value }) as const),
  fc
    .bigInt(0n, 3_155_378_975_999_999_999n)
    .map((value) => ({ type: "Edm.DateTime", value }) as const),
  fc.uuid().map((value) => ({ type: "Edm.Guid", value }) as const),
  fc.uint8Array().map((value) => ({ type: "Edm.Binary", value }) as const),
);

const names = fc.constantFrom("A", "and", "eq", "Größe", "_x", "null_", "trueish", "datetime", "L");

const filters = fc.letrec<{ filter: FilterNode }>((tie) => ({
  filter: fc.oneof(
    { depthSize: "small" },
    fc.record({
      kind: fc.constant("comparison" as const),
      property: names,
      operator: fc.constantFrom("eq", "ne", "lt", "le", "gt", "ge"),
      literal: literals,
    }),
    names.map((property) => ({ kind: "property", property }) as const),
    fc.boolean().map((value) => ({ kind: "constant", value }) as const),
    tie("filter").map((clause) => ({ kind: "not", clause }) as const),
    fc.record({
      kind: fc.constantFrom("and" as const, "or" as const),
      clauses: fc.array(tie("filter"), { minLength: 2, maxLength: 4 }),
    }),
  ),
})).filter;

describe("printFilter", () => {
  it("writes text that parses to the same tree", () => {
    fc.assert(
      fc.property(filters, (filter) => {
        assert.deepEqual(parseFilter(printFilter(filter)), plain(filter));
      }),
      { numRuns: 2000 },
    );
  });

  it("writes doubles so that they remain doubles", () => {
    assert.equal(print("X eq 5.0"), "X eq 5.0");
    assert.equal(print("X eq 1e3"), "X eq 1000.0");
    assert.equal(print("X eq 1e300"), "X eq 1e+300");
    assert.equal(print("X eq -INF or X eq INF or X eq NaN"), "X eq -INF or X eq INF or X eq NaN");
  });

  it("writes instants without trailing zeros", () => {
    assert.equal(
      print("X gt datetime'2020-01-02T03:04:05.1200000Z'"),
      "X gt datetime'2020-01-02T03:04:05.12Z'",
    );
    assert.equal(print("X gt datetime'2020-01-02'"), "X gt datetime'2020-01-02T00:00:00Z'");
  });
});

function print(text: string): string {
  return printFilter(parseFilter(text));
}

/** fast-check's records have no prototype, which strict comparison would report. */
function plain(filter: FilterNode): FilterNode {
  switch (filter.kind) {
    case "and":
    case "or":
      return { kind: filter.kind, clauses: filter.clauses.map(plain) };
    case "not":
      return { kind: "not", clause: plain(filter.clause) };
    default:
      return { ...filter };
  }
}
