import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { k } from "@rowhouse/patterns";
import type { Literal } from "@rowhouse/protocol/filter-tree";
import { entryKey } from "@rowhouse/server/query/indexes/index-key";
import fc from "fast-check";

const RUNS = { numRuns: 1000 };

/**
 * An index that the server keeps can be carried on by the pattern library, and the reverse: both must write the same
 * text for the same value.
 */
describe("The server's index keys and the pattern library's codecs", () => {
  it("write the text of every example", () => {
    const july = new Date("2014-07-31T18:00:00Z");
    const ticks = 635_424_264_000_000_000n;
    for (const [text, server, pattern] of [
      ['a.~~b>~~c"23d[~~e$~~f', textOf("a/b?c#d\\e%f"), patternText("a/b?c#d\\e%f")],
      ["Zo~000eb", textOf("Zoë"), patternText("Zoë")],
      ['A"20B', textOf("A B"), patternText("A B")],
      ["~0d83d~0de00", textOf("😀"), patternText("😀")],
      ["x_y", textOf("x_y"), patternText("x_y")],
      ["7fffffffffffffff", int64Of(-1n), patternInt64(-1n)],
      ["7ffffffffffffffd", int32Of(-3), patternInt32(-3)],
      ["80000000000007dc", int32Of(2012), patternInt32(2012)],
      ["8000000000000000", int64Of(0n), patternInt64(0n)],
      [
        "000fffffffffffff",
        doubleOf(Number.NEGATIVE_INFINITY),
        patternDouble(Number.NEGATIVE_INFINITY),
      ],
      ["4007ffffffffffff", doubleOf(-1.5), patternDouble(-1.5)],
      ["8000000000000000", doubleOf(-0), patternDouble(-0)],
      ["c059000000000000", doubleOf(100), patternDouble(100)],
      ["1", serverText({ type: "Edm.Boolean", value: true }), k.bool("x").encode(true, PLACE)],
      [GUID, serverText({ type: "Edm.Guid", value: GUID }), k.guid("x").encode(GUID, PLACE)],
      ["0635424264000000000", dateOf(ticks), k.date("x").encode(july, PLACE)],
      ["2519954711999999999", dateOf(ticks, true), k.dateDesc("x").encode(july, PLACE)],
    ] as const) {
      assert.equal(server, text);
      assert.equal(pattern, text);
    }
  });

  it("write the same text for any value", () => {
    const texts = fc.string({ unit: "binary", maxLength: 20 });
    fc.assert(
      fc.property(texts, (value) => assert.equal(textOf(value), patternText(value))),
      RUNS,
    );
    const integers = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    fc.assert(
      fc.property(integers, (value) => {
        assert.equal(int64Of(value), patternInt64(value));
        const small = Number(BigInt.asIntN(32, value));
        assert.equal(int32Of(small), patternInt32(small));
      }),
      RUNS,
    );
    fc.assert(
      fc.property(fc.double({ noNaN: true }), (value) =>
        assert.equal(doubleOf(value), patternDouble(value)),
      ),
      RUNS,
    );
  });
});

const GUID = "c56a4180-65aa-42ec-a945-5fd21dec0538";
const PLACE = { escapeUnderscore: false };

const textOf = (value: string) => serverText({ type: "Edm.String", value });
const int32Of = (value: number) => serverText({ type: "Edm.Int32", value });
const int64Of = (value: bigint) => serverText({ type: "Edm.Int64", value });
const doubleOf = (value: number) => serverText({ type: "Edm.Double", value });
const dateOf = (value: bigint, descending = false) =>
  serverText({ type: "Edm.DateTime", value }, descending);
const patternText = (value: string) => k.str("x").encode(value, PLACE);
const patternInt64 = (value: bigint) => k.int64("x").encode(value, PLACE);
const patternInt32 = (value: number) => k.int32("x").encode(value, PLACE);
const patternDouble = (value: number) => k.double("x").encode(value, PLACE);

/** The first part of the key of a global index. */
function serverText(value: Literal, descending = false): string {
  const parts = [{ property: "x", type: value.type, descending }];
  const base = { partitionKey: "p", rowKey: "r" };
  return entryKey({ name: "I", isLocal: false, parts }, base, [value]).partitionKey;
}
