import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { k } from "../keys/key.ts";
import { KeyShape } from "../keys/key-shape.ts";
import { bytesOf, type EdmValue, text } from "../ports/edm.ts";
import { digitsOf, encodingNamed, idsThatFit, LIST_ENCODINGS } from "./list-encoding.ts";

const NAMES = ["csv", "json", "packed"] as const;
const LENGTH_MAX = 32_768;
const UINT32_MAX = 2 ** 32 - 1;
const id = (value: number, digits: number) => String(value).padStart(digits, "0");
const idsOf = (digits: number) =>
  fc
    .uniqueArray(fc.integer({ min: 0, max: Math.min(10 ** digits - 1, UINT32_MAX) }), {
      minLength: 1,
      maxLength: 200,
    })
    .map((values) => values.map((value) => id(value, digits)).sort());
const widths = fc.integer({ min: 1, max: 10 });

/** The bytes that the service counts for a property: two for each character of text. */
function bytesIn({ type, value }: EdmValue): number {
  return type === "Binary" ? bytesOf(String(value)).length : String(value).length * 2;
}

describe("the encodings of lists", () => {
  it("decode exactly the ids they encoded", () => {
    for (const name of NAMES) {
      const { encode, decode } = LIST_ENCODINGS[name];
      fc.assert(
        fc.property(
          widths.chain((digits) => fc.tuple(fc.constant(digits), idsOf(digits))),
          ([digits, ids]) => {
            assert.deepEqual(decode(encode(ids), digits), ids);
          },
        ),
      );
    }
  });

  it("have the length they report, and fill a property to the last id", () => {
    for (const name of NAMES) {
      const encoding = LIST_ENCODINGS[name];
      fc.assert(
        fc.property(
          widths.chain((digits) => idsOf(digits)),
          fc.nat(3000),
          (ids, lengthMax) => {
            assert.equal(encoding.lengthOf(ids) * 2, bytesIn(encoding.encode(ids)));
            const fits = idsThatFit(encoding, ids[0]!, lengthMax);
            assert.equal(encoding.lengthOf(ids) <= lengthMax, ids.length <= fits);
          },
        ),
      );
    }
  });

  it("hold as many six-digit ids in a property as the manual states", () => {
    for (const [name, fits] of [
      ["csv", 4681],
      ["json", 3640],
      ["packed", 16_384],
    ] as const) {
      const encoding = LIST_ENCODINGS[name];
      assert.equal(idsThatFit(encoding, "000000", LENGTH_MAX), fits);
      const ids = Array.from({ length: fits + 1 }, (_, i) => id(i, 6));
      assert.ok(bytesIn(encoding.encode(ids.slice(1))) <= 65_536, name);
      assert.ok(bytesIn(encoding.encode(ids)) > 65_536, name);
    }
  });

  it("pack ids in numeric order, high byte first", () => {
    const packed = LIST_ENCODINGS.packed.encode(["000001", "065536"]);
    assert.deepEqual([...bytesOf(String(packed.value))], [0, 0, 0, 1, 0, 1, 0, 0]);
    assert.equal(packed.type, "Binary");
  });

  it("refuse to pack a number of more than 32 bits", () => {
    const { encode, decode } = LIST_ENCODINGS.packed;
    assert.deepEqual(decode(encode([String(UINT32_MAX)]), 10), [String(UINT32_MAX)]);
    assert.throws(() => encode([String(UINT32_MAX + 1)]), { code: "validation-failed" });
  });

  it("decode only the valid ids of a malformed list", () => {
    const { csv, json, packed } = LIST_ENCODINGS;
    for (const broken of ["", "[", "7", '{"a":1}', "null"]) {
      assert.deepEqual(json.decode(text(broken), 6), []);
    }
    assert.deepEqual(json.decode(text('["000001",2]'), 6), ["000001"]);
    assert.deepEqual(csv.decode(text(",000001,"), 6), ["000001"]);
    assert.deepEqual(packed.decode(text("000001"), 6), []);
    assert.deepEqual(packed.decode({ type: "Binary", value: "AAAAAQA=" }, 6), ["000001"]);
  });

  it("are identified by their stored name; a row without one is CSV", () => {
    for (const name of NAMES) assert.equal(encodingNamed(name), LIST_ENCODINGS[name]);
    for (const name of [undefined, "toString", "zip"]) {
      assert.equal(encodingNamed(name), LIST_ENCODINGS.csv);
    }
  });

  it("pack only ids that are one unsigned number of at most 10 digits", () => {
    const digits = (...row: ConstructorParameters<typeof KeyShape>[0] & readonly unknown[]) =>
      digitsOf(new KeyShape(row));
    assert.equal(digits(k.lit("empid"), k.uint("id", 6)), 6);
    assert.equal(digits(k.uintDesc("id", 9)), 9);
    assert.equal(digits(k.uint("id", 11)), undefined);
    assert.equal(digits(k.int("id", 6)), undefined);
    assert.equal(digits(k.uint("id", 6), k.lit("x")), undefined);
    assert.equal(digits(k.uint("a", 3), k.uint("b", 3)), undefined);
    assert.equal(digits(k.lit("e"), k.guid("id")), undefined);
    assert.equal(digits(k.date("at")), undefined);
  });
});
