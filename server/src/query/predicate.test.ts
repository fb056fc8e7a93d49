import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter, parseTableFilter } from "@rowhouse/protocol/filter-parser";
import type { Literal } from "@rowhouse/protocol/filter-tree";
import fc from "fast-check";
import { compilePredicate } from "./predicate.ts";
import { compileTablePredicate } from "./table-predicate.ts";
import { randomEntities, randomFilters } from "./test-random-filters.ts";
import { evaluate, PlainView } from "./test-reference.ts";

const OPERATORS = ["eq", "ne", "lt", "le", "gt", "ge"] as const;

describe("compilePredicate", () => {
  it("agrees with the reference on random filters and entities", () => {
    fc.assert(
      fc.property(randomFilters, fc.array(randomEntities, { minLength: 1 }), (filter, entities) => {
        const predicate = compilePredicate(filter);
        for (const entity of entities) {
          assert.equal(predicate(new PlainView(entity)), evaluate(filter, entity));
        }
      }),
      { numRuns: 1000 },
    );
  });
});

/** One row per case: the property's value, the literal, the operators that hold. */
describe("A comparison with", () => {
  for (const [situation, value, literal, holding] of [
    ["a missing property is false for every operator", undefined, "'a'", ""],
    ["an equal string", string("a"), "'a'", "eq le ge"],
    ["a smaller string, by code units", string("B"), "'b'", "ne lt le"],
    ["a larger string, by code units and not code points", string("\uff5e"), "'😀'", "ne gt ge"],
    ["an empty string", string(""), "''", "eq le ge"],
    ["an Int32 and an Int32 literal", int32(5), "5", "eq le ge"],
    ["an Int64 and an Int32 literal", int64(5n), "6", "ne lt le"],
    ["an Int64 and an Int64 literal", int64(2n ** 60n), "1152921504606846975L", "ne gt ge"],
    ["an Int32 and an Int64 literal is a mismatch", int32(5), "5L", "ne lt le"],
    ["an Int32 and a Double literal is a mismatch", int32(5), "5.0", "ne lt le"],
    ["an Int64 and a Double literal is a mismatch", int64(5n), "5.0", "ne lt le"],
    ["a Double and an Int32 literal", double(5.5), "5", "ne gt ge"],
    ["a Double and an Int64 literal is exact", double(2 ** 53), "9007199254740993L", "ne lt le"],
    ["a Double and an equal Int64 literal", double(5), "5L", "eq le ge"],
    ["a Double and a Double literal", double(5.5), "5.5", "eq le ge"],
    ["NaN and a Double is true for ne only", double(Number.NaN), "5.5", "ne"],
    ["NaN and NaN is true for ne only", double(Number.NaN), "NaN", "ne"],
    ["NaN and an Int64 is true for ne only", double(Number.NaN), "5L", "ne"],
    ["minus zero and zero is equal", double(-0), "0", "eq le ge"],
    ["false and true finds false less", boolean(false), "true", "ne lt le"],
    [
      "a DateTime 100 ns later",
      ticks(634881134452000001n),
      "datetime'2012-11-10T03:04:05.2'",
      "ne gt ge",
    ],
    ["a DateTime and a string is a mismatch", ticks(5n), "''", "ne lt le"],
    ["a string and a number is a mismatch", string("5"), "5", "ne lt le"],
    ["a string and a Guid is a mismatch", string(GUID()), `guid'${GUID()}'`, "ne lt le"],
    ["a Guid ignores case", guid(), `guid'${GUID().toUpperCase()}'`, "eq le ge"],
    [
      "a larger Guid goes by the text",
      guid(),
      "guid'ffffffff-0000-0000-0000-000000000000'",
      "ne lt le",
    ],
    ["a Binary that is a prefix of the literal", binary(1), "X'0100'", "ne lt le"],
    ["a Binary with a larger byte", binary(2), "X'0100'", "ne gt ge"],
    ["a Boolean and a string is a mismatch", boolean(true), "'true'", "ne lt le"],
  ] as const) {
    it(situation, () => {
      const held = OPERATORS.filter((operator) => passes(`X ${operator} ${literal}`, value));
      assert.equal(held.join(" "), holding);
    });
  }
});

describe("A predicate", () => {
  it("negates the result of a comparison, also for missing properties", () => {
    assert.equal(passes("not (X ne 'a')", undefined), true);
    assert.equal(passes("not (X gt '')", undefined), true);
    assert.equal(passes("not (X gt '')", string("hi")), false);
    assert.equal(passes("not (X gt 5L)", int32(6)), true);
  });

  it("takes a bare property name as true only for a Boolean true", () => {
    const held = [boolean(true), boolean(false), string("true"), int32(1), undefined].map((value) =>
      passes("X", value),
    );
    assert.deepEqual(held, [true, false, false, false, false]);
    assert.equal(passes("not X", undefined), true);
  });

  it("matches strings against a long list of alternatives", () => {
    const list = Array.from({ length: 100 }, (_, index) => `X eq 'v${index}'`).join(" or ");
    assert.equal(passes(list, string("v99")), true);
    assert.equal(passes(list, string("v100")), false);
    assert.equal(passes(`${list} or X eq 5`, int32(5)), true);
    assert.equal(passes(list, undefined), false);
    assert.equal(passes(`${list} or X eq '${GUID()}'`, string(GUID())), true);
    assert.equal(passes(`${list} or X eq '${GUID()}'`, guid()), false);
    assert.equal(passes(list.replaceAll("X", "RowKey"), undefined), false);
    assert.equal(passes(`${list.replaceAll("X", "RowKey")} or RowKey eq 'r'`, undefined), true);
    assert.equal(passes(`${list.replaceAll("X", "PartitionKey")} or Y`, undefined), false);
  });

  it("tests the keys and the Timestamp", () => {
    assert.equal(passes("PartitionKey eq 'p' and RowKey lt 's'", undefined), true);
    assert.equal(passes("Timestamp eq datetime'0001-01-01T00:00:00.0000005Z'", undefined), true);
    assert.equal(passes("Timestamp lt datetime'0001-01-01T00:00:00.0000005Z'", undefined), false);
  });

  it("tests a cheap comparison before an expensive one", () => {
    const asked: string[] = [];
    const view = new PlainView(entity({ A: string("x"), B: int32(1) }));
    const find = view.find.bind(view);
    view.find = (name) => {
      asked.push(new TextDecoder().decode(name));
      return find(name);
    };
    compilePredicate(parseFilter("A gt 'y' and B eq 2"))(view);
    assert.deepEqual(asked, ["B"]);
  });
});

describe("compileTablePredicate", () => {
  it("compares table names case-sensitively, as they were created", () => {
    const names = ["MyTable", "mytable", "People"];
    const listed = (filter: string) =>
      names.filter(compileTablePredicate(parseTableFilter(filter)));
    assert.deepEqual(listed("TableName ge 'My' and TableName lt 'My{'"), ["MyTable"]);
    assert.deepEqual(listed("not (TableName eq 'People')"), ["MyTable", "mytable"]);
    assert.deepEqual(listed("TableName eq 'a' or true"), names);
    assert.deepEqual(listed("false"), []);
  });
});

function passes(filter: string, x: Literal | undefined): boolean {
  const view = new PlainView(entity(x === undefined ? {} : { X: x }));
  return compilePredicate(parseFilter(filter))(view);
}

function entity(properties: Record<string, Literal>) {
  return { partitionKey: "p", rowKey: "r", timestampTicks: 5n, properties };
}

function string(value: string): Literal {
  return { type: "Edm.String", value };
}

function int32(value: number): Literal {
  return { type: "Edm.Int32", value };
}

function int64(value: bigint): Literal {
  return { type: "Edm.Int64", value };
}

function double(value: number): Literal {
  return { type: "Edm.Double", value };
}

function boolean(value: boolean): Literal {
  return { type: "Edm.Boolean", value };
}

function ticks(value: bigint): Literal {
  return { type: "Edm.DateTime", value };
}

function guid(): Literal {
  return { type: "Edm.Guid", value: GUID() };
}

function GUID(): string {
  return "debc44d5-1f2c-4b3a-9d8e-0123456789ab";
}

function binary(...bytes: number[]): Literal {
  return { type: "Edm.Binary", value: Uint8Array.from(bytes) };
}
