import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EDM_TYPES, type EdmType } from "@rowhouse/protocol/edm";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import fc from "fast-check";
import { toJson } from "../entity-json.ts";
import { base64Of, base64OfHex, bytesOf, convert, hexOf, readValue } from "./edm-text.ts";

/** Texts of values, as the service prints them. */
const VALUES: Readonly<Record<EdmType, fc.Arbitrary<string>>> = {
  "Edm.String": fc.string({ unit: "grapheme", maxLength: 40 }),
  "Edm.Int32": fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String),
  "Edm.Int64": fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  "Edm.Double": fc.double().map((value) => textOf("Edm.Double", String(value))),
  "Edm.Boolean": fc.constantFrom("true", "false"),
  "Edm.DateTime": fc
    .tuple(
      fc.date({ min: new Date("1601-01-01"), max: new Date("9999-12-31"), noInvalidDate: true }),
      fc.integer({ min: 0, max: 9999 }),
    )
    .map(([date, ticks]) =>
      textOf(
        "Edm.DateTime",
        `${date.toISOString().slice(0, -1)}${String(ticks).padStart(4, "0")}Z`,
      ),
    ),
  "Edm.Guid": fc.uuid(),
  "Edm.Binary": fc.uint8Array({ maxLength: 40 }).map(base64Of),
};
const ANY = fc.oneof(
  ...EDM_TYPES.map((type) => VALUES[type].map((text) => ({ type, text }) as const)),
);

function textOf(type: EdmType, typed: string): string {
  const read = readValue(type, typed);
  assert.ok("text" in read, `${type} ${typed}`);
  return read.text;
}

describe("A value of each type", () => {
  it("is read from its own text as the same value, to the last digit", () => {
    fc.assert(
      fc.property(ANY, ({ type, text }) => {
        assert.equal(textOf(type, text), text);
      }),
    );
  });

  it("is sent so that the service stores the same value", () => {
    fc.assert(
      fc.property(ANY, (cell) => {
        const json = toJson({ partitionKey: "p", rowKey: "r", cells: new Map([["v", cell]]) });
        const decoded = decodeEntity(Buffer.from(json));
        assert.equal(decoded.properties.length, 1);
        const stored = new TextDecoder().decode(decoded.json);
        const value: unknown = JSON.parse(`{${stored.replace(/^,/, "")}}`).v;
        if (typeof value === "string") assert.equal(value, cell.text);
        else assert.ok(stored.endsWith(`:${cell.text}`), `${stored} of ${cell.text}`);
      }),
    );
  });

  it("becomes another type and comes back the same, or is said to lose something", () => {
    fc.assert(
      fc.property(ANY, fc.constantFrom(...EDM_TYPES), (cell, to) => {
        const there = convert(cell, to);
        if (!there) return;
        assert.equal(textOf(to, there.cell.text), there.cell.text);
        const back = convert(there.cell, cell.type);
        assert.equal(there.isLossless, back?.cell.text === cell.text);
        if (to === "Edm.String" && cell.text.length > 0) assert.equal(there.isLossless, true);
      }),
    );
  });

  it("is refused with what is allowed", () => {
    for (const [type, typed] of [
      ["Edm.Int32", "2147483648"],
      ["Edm.Int32", "1.0"],
      ["Edm.Int32", ""],
      ["Edm.Int32", "null"],
      ["Edm.Int64", "9223372036854775808"],
      ["Edm.Int64", "1e3"],
      ["Edm.Double", "1e999"],
      ["Edm.Double", "0x10"],
      ["Edm.Double", ""],
      ["Edm.Boolean", "1"],
      ["Edm.DateTime", "yesterday"],
      ["Edm.DateTime", "1600-12-31T23:59:59Z"],
      ["Edm.Guid", "0f8fad5bd9cb469fa16570867728950e"],
      ["Edm.Binary", "AQI"],
      ["Edm.Binary", "A".repeat(87_384 + 4)],
      ["Edm.String", "x".repeat(32_769)],
      ["Edm.String", "\ud800"],
    ] as const)
      assert.ok("problem" in readValue(type, typed), `${type} ${typed.slice(0, 40)}`);
  });

  it("is read from what people write", () => {
    for (const [type, typed, text] of [
      ["Edm.Int32", " 007 ", "7"],
      ["Edm.Int64", "-0", "0"],
      ["Edm.Double", "1", "1.0"],
      ["Edm.Double", "1e24", "1E+24"],
      ["Edm.Double", "-Infinity", "-Infinity"],
      ["Edm.DateTime", "2026-11-28", "2026-11-28T00:00:00Z"],
      ["Edm.DateTime", "2026-11-28T14:00:00.1234567+02:00", "2026-11-28T12:00:00.1234567Z"],
      ["Edm.Guid", "0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5b-d9cb-469f-a165-70867728950e"],
      ["Edm.Binary", "AQ ID\n", "AQID"],
      ["Edm.String", " kept ", " kept "],
    ] as const)
      assert.equal(textOf(type, typed), text);
  });
});

describe("A conversion", () => {
  const to = (type: EdmType, text: string, other: EdmType) => {
    const made = convert({ type, text }, other);
    return made && [made.cell.text, made.isLossless];
  };
  it("says whether it loses something", () => {
    assert.deepEqual(to("Edm.Double", "1.0", "Edm.Int32"), ["1", true]);
    assert.deepEqual(to("Edm.Double", "1.5", "Edm.Int32"), ["1", false]);
    assert.deepEqual(to("Edm.Int64", "9007199254740993", "Edm.Double"), [
      "9.007199254740992E+15",
      false,
    ]);
    assert.deepEqual(to("Edm.String", "007", "Edm.Int32"), ["7", false]);
    assert.deepEqual(to("Edm.Boolean", "true", "Edm.Int64"), ["1", true]);
    assert.equal(to("Edm.String", "seven", "Edm.Int32"), undefined);
    assert.equal(to("Edm.Double", "NaN", "Edm.Int64"), undefined);
  });
});

it("Bytes are the same in hexadecimal digits and in Base64", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70 }), (bytes) => {
      const base64 = base64Of(bytes);
      assert.deepEqual(bytesOf(base64), bytes);
      assert.equal(base64OfHex(hexOf(base64)), base64);
    }),
  );
  assert.equal(base64OfHex("012"), undefined);
  assert.equal(base64OfHex("xy"), undefined);
});
