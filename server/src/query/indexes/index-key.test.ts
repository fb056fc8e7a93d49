import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EDM_TYPES } from "@rowhouse/protocol/edm";
import type { ComparisonOperator, Literal } from "@rowhouse/protocol/filter-tree";
import fc from "fast-check";
import { evaluate } from "../test-reference.ts";
import { type IndexDefinition, IndexProblem, parseIndexKey } from "./index-definition.ts";
import {
  codesEqualTo,
  encodeText,
  entryKey,
  type IndexValue,
  orderedEntries,
  rangesWhere,
  rowPrefixOf,
} from "./index-key.ts";
import { randomLiterals } from "./test-literals.ts";

const RUNS = 36_000;
const OPERATORS: readonly ComparisonOperator[] = ["eq", "ne", "lt", "le", "gt", "ge"];
const LEGAL = /^[\x21-\x7e]*$/;
const FORBIDDEN = /[\\/#?%]/;

const anyText = fc.string({ unit: "binary", maxLength: 6 });
const keyText = fc.oneof(
  anyText,
  fc.string({ unit: fc.constantFrom(...'ab!"~é\uffff😀 %/'), maxLength: 4 }),
);

describe("The text of an index key", () => {
  it("sorts strings by UTF-16 code unit, in characters that keys may have", () => {
    fc.assert(
      fc.property(anyText, anyText, (a, b) => {
        const [codeA, codeB] = [encodeText(a), encodeText(b)];
        assert.equal(compare(codeA, codeB), compare(a, b));
        assert.match(codeA, LEGAL);
        assert.doesNotMatch(codeA, FORBIDDEN);
        assert.ok(!codeA.includes("!"));
      }),
      { numRuns: 100_000 },
    );
    assert.ok(encodeText("\uff5e") > encodeText("😀"), "by code unit, not by code point");
  });

  it("sorts the values of every type, ascending and descending", () => {
    for (const type of EDM_TYPES) {
      for (const descending of [false, true]) {
        if (descending && !isFixed(type)) continue;
        const index = local({ property: "P", type, descending });
        const values = randomLiterals.filter((value) => value.type === type && !isNaNValue(value));
        fc.assert(
          fc.property(values, values, (a, b) => {
            if (isLong(a) || isLong(b)) return;
            const [keyA, keyB] = [keyOf(index, a), keyOf(index, b)];
            const isLess = compares(a, "lt", b);
            assert.equal(keyA < keyB, descending ? compares(a, "gt", b) : isLess);
          }),
          { numRuns: 2000 },
        );
      }
    }
  });

  it("fits the keys of a table whatever the values and keys are", () => {
    const long = "\u0001".repeat(1024);
    for (const [text, parts] of [
      ["A", 1],
      ["A,B,C,D", 4],
      ["PartitionKey,A,B,C", 3],
    ] as const) {
      const index = indexOf(text);
      const values: IndexValue[] = Array.from({ length: parts }, () => ({
        type: "Edm.String",
        value: long,
      }));
      const key = entryKey(index, { partitionKey: long.slice(0, 400), rowKey: long }, values);
      assert.ok(key.rowKey.length <= 512, `${text}: ${key.rowKey.length}`);
      if (!index.isLocal) assert.ok(key.partitionKey.length <= 512);
    }
  });

  it("keeps entities with equal values in their own order", () => {
    for (const index of [indexOf("A"), indexOf("A,B"), indexOf("PartitionKey,A")]) {
      const values: IndexValue[] = [
        { type: "Edm.String", value: "x" },
        { type: "Edm.Int32", value: 1 },
      ];
      fc.assert(
        fc.property(keyText, keyText, keyText, keyText, (p, r, q, s) => {
          const a = { partitionKey: p, rowKey: r };
          const b = { partitionKey: index.isLocal ? p : q, rowKey: s };
          const order = compare(a.partitionKey, b.partitionKey) || compare(a.rowKey, b.rowKey);
          const [keyA, keyB] = [entryKey(index, a, values), entryKey(index, b, values)];
          assert.equal(compare(keyA.rowKey, keyB.rowKey), order);
          const prefix = rowPrefixOf(
            (index.isLocal ? index.parts : index.parts.slice(1)).map(
              (_, at) =>
                codesEqualTo(
                  index,
                  index.isLocal ? at : at + 1,
                  values[index.isLocal ? at : at + 1]!,
                )[0]!,
            ),
          );
          const range = orderedEntries(index, keyA.partitionKey, prefix, b, undefined);
          assert.equal(
            keyA.rowKey >= range.start.rowKey && keyA.rowKey < range.end.rowKey,
            order >= 0,
          );
        }),
        { numRuns: 5000 },
      );
    }
  });
});

describe("The ranges of a comparison", () => {
  it("hold every value that satisfies it, of whatever type, and hardly any other", () => {
    let hits = 0;
    let candidates = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...EDM_TYPES),
        fc.boolean(),
        fc.boolean(),
        fc.constantFrom(...OPERATORS),
        randomLiterals,
        randomLiterals,
        (type, isLocal, wantsDescending, operator, literal, value) => {
          const part = { property: "P", type, descending: wantsDescending && isFixed(type) };
          const index = { name: "I", isLocal, parts: [part] };
          const key = entryKey(index, { partitionKey: "p", rowKey: "r" }, [value]);
          const code = isLocal ? key.rowKey : key.partitionKey;
          const ranges = rangesWhere(index, 0, operator, literal);
          if (operator === "ne") {
            assert.equal(ranges, undefined);
            return;
          }
          const isInside = ranges!.some(({ from, to }) => code >= from && code < to);
          const matches = compares(value, operator, literal);
          if (matches) assert.ok(isInside, `${code} is not in ${JSON.stringify(ranges)}`);
          if (operator === "eq" && matches) {
            const codes = codesEqualTo(index, 0, literal);
            assert.ok(codes.some((each) => code === (isLocal ? `${each}!r` : each)));
          }
          hits += Number(matches);
          candidates += Number(isInside);
        },
      ),
      { numRuns: RUNS },
    );
    assert.ok(candidates / hits < 1.05, `${candidates} candidates for ${hits} hits`);
  });

  it("of an equality end before a longer value that continues the literal", () => {
    for (const isLocal of [false, true]) {
      const index = { ...indexOf("A"), isLocal };
      const literal: Literal = { type: "Edm.String", value: "a" };
      const [range] = rangesWhere(index, 0, "eq", literal)!;
      for (const longer of ["a\0", "a!", "a ", "ab", "a\uffff"]) {
        const key = entryKey(index, { partitionKey: "p", rowKey: "r" }, [
          { type: "Edm.String", value: longer },
        ]);
        const code = isLocal ? key.rowKey : key.partitionKey;
        assert.ok(!(code >= range!.from && code < range!.to), longer);
      }
    }
  });
});

describe("A declared key", () => {
  it("is read as it is written", () => {
    assert.deepEqual(parseIndexKey("LastName, Day:DateTime desc"), {
      isLocal: false,
      parts: [
        { property: "LastName", type: undefined, descending: false },
        { property: "Day", type: "Edm.DateTime", descending: true },
      ],
    });
    assert.equal(parseIndexKey("PartitionKey,Age:Edm.Int32").isLocal, true);
  });

  it("that cannot be kept is refused with what is allowed", () => {
    for (const [key, message] of [
      ["", /"" is not a part/],
      ["A,B,C,D,E", /5 parts; at most 4/],
      ["PartitionKey", /needs a property besides PartitionKey/],
      ["A,PartitionKey", /PartitionKey cannot be a part/],
      ["RowKey", /RowKey cannot be a part/],
      ["Timestamp", /Timestamp cannot be a part/],
      ["A,A", /names A twice/],
      ["basePK", /entries name their entity/],
      ["A:Text", /"Text" is not a type; types are String, Int32/],
      ["A:String desc", /cannot be sorted "desc"; these can: Int32/],
      ["A sideways", /is not a part of a key/],
      ["A-B", /is not a part of a key/],
    ] as const) {
      assert.throws(
        () => parseIndexKey(key),
        (error) => error instanceof IndexProblem && message.test(error.message),
        key,
      );
    }
  });
});

function indexOf(key: string): IndexDefinition {
  const { isLocal, parts } = parseIndexKey(key);
  return {
    name: "I",
    isLocal,
    parts: parts.map((part) => ({ ...part, type: part.type ?? "Edm.String" })),
  };
}

function local(part: IndexDefinition["parts"][number]): IndexDefinition {
  return { name: "I", isLocal: true, parts: [part] };
}

function keyOf(index: IndexDefinition, value: IndexValue): string {
  return entryKey(index, { partitionKey: "p", rowKey: "r" }, [value]).rowKey;
}

function compares(value: Literal, operator: ComparisonOperator, literal: Literal): boolean {
  const entity = { partitionKey: "", rowKey: "", timestampTicks: 0n, properties: { P: value } };
  return evaluate({ kind: "comparison", property: "P", operator, literal }, entity);
}

function isFixed(type: Literal["type"]): boolean {
  return type !== "Edm.String" && type !== "Edm.Guid" && type !== "Edm.Binary";
}

function isNaNValue(value: Literal): boolean {
  return value.type === "Edm.Double" && Number.isNaN(value.value);
}

/** Cut values sort by their beginning only. */
function isLong(value: Literal): boolean {
  return (value.type === "Edm.String" || value.type === "Edm.Binary") && value.value.length > 10;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
