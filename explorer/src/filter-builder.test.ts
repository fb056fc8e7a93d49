import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { Literal } from "@rowhouse/protocol/filter-tree";
import fc from "fast-check";
import { type Built, type Condition, fromBuilder, toBuilder } from "./filter-builder.ts";
import { OPERATORS } from "./filter-text.ts";

describe("The filter as a form", () => {
  it("is the same filter as the text, whatever its conditions", () => {
    const property = fc.constantFrom("PartitionKey", "RowKey", "Year", "名前", "_x1");
    const value = fc.oneof(
      record("Edm.String", fc.string({ unit: "grapheme" })),
      record("Edm.Int32", fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String)),
      record("Edm.Int64", fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String)),
      record("Edm.Double", fc.double({ noDefaultInfinity: true, noNaN: true }).map(printed)),
      record("Edm.Double", fc.constantFrom("NaN", "INF", "-INF")),
      record("Edm.Boolean", fc.constantFrom("true", "false")),
      record(
        "Edm.DateTime",
        fc.constantFrom("2020-02-29T00:00:00Z", "0001-01-01T00:00:00.0000001Z"),
      ),
      record("Edm.Guid", fc.uuid()),
      record("Edm.Binary", fc.constantFrom("", "00ff", "0102")),
    );
    const condition = fc
      .tuple(property, fc.constantFrom(...OPERATORS), value)
      .map(([name, operator, typed]): Condition => ({ property: name, operator, ...typed }));
    // PartitionKey and RowKey are texts; comparing them with anything else is no filter.
    const legal = condition.filter(
      (each) => !/Key$/.test(each.property) || each.type === "Edm.String",
    );
    const built = fc.record({
      join: fc.constantFrom("and", "or" as const),
      conditions: fc.array(legal, { maxLength: 6 }),
    });
    fc.assert(
      fc.property(built, (given) => {
        const tree = fromBuilder(given as Built);
        assert.notEqual(typeof tree, "string");
        if (typeof tree === "string") return;
        const text = tree ? printFilter(tree) : "";
        const again = toBuilder(text === "" ? undefined : parseFilter(text));
        const rebuilt = again && fromBuilder(again);
        assert.equal(rebuilt && typeof rebuilt !== "string" ? printFilter(rebuilt) : "", text);
        assert.equal(again!.conditions.length, given.conditions.length);
      }),
    );
  });

  it("says what is missing or wrong in a condition", () => {
    const one = (part: Partial<Condition>) =>
      fromBuilder({
        join: "and",
        conditions: [{ property: "Year", operator: "eq", type: "Edm.Int32", value: "1", ...part }],
      });
    assert.equal(one({ property: "" }), "Choose a property.");
    assert.equal(one({ property: "a b" }), "“a b” is no property name.");
    assert.equal(one({ value: "x" }), "“x” is no Int32.");
    assert.equal(one({ value: "2147483648" }), "“2147483648” is no Int32.");
    assert.equal(one({ type: "Edm.Guid", value: "1" }), "“1” is no Guid.");
  });

  it("leaves to the text what it cannot show", () => {
    for (const text of ["not (a eq 1)", "a", "a eq 1 and (b eq 2 or c eq 3)", "1 eq 1"])
      assert.equal(toBuilder(parseFilter(text)), undefined, text);
  });
});

function record(type: Literal["type"], value: fc.Arbitrary<string>) {
  return value.map((text) => ({ type, value: text }));
}

function printed(value: number): string {
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}
