import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { isTableError } from "../errors.ts";
import { k } from "./key.ts";
import { isOneRow, type KeyRange } from "./key-range.ts";
import { KeyShape } from "./key-shape.ts";

const shortText = fc.string({ unit: fc.constantFrom(..."ab_~./ %!0Zé"), maxLength: 4 });
const employee = new KeyShape([k.lit("empid"), k.uint("id", 6)]);
const byLastName = new KeyShape([k.lit("last"), k.str("lastName"), k.uint("id", 6)]);
const byTown = new KeyShape([k.str("town"), k.str("lastName"), k.uint("id", 6)]);

describe("a key shape", () => {
  it("writes the keys of the published designs", () => {
    assert.equal(employee.encode({ id: 223 }), "empid_000223");
    assert.equal(byLastName.encode({ lastName: "Jones", id: 152 }), "last_Jones_000152");
    assert.equal(
      new KeyShape([k.lit("email"), k.str("email")]).encode({ email: "jonesj@contoso.com" }),
      "email_jonesj@contoso.com",
    );
    assert.equal(
      new KeyShape(k.readable(k.str("town"), k.str("name"))).encode({
        town: "Redmond",
        name: "Smith",
      }),
      "Redmond_Smith",
    );
  });

  it("uses the ordered layout if it has two text segments", () => {
    assert.equal(
      byTown.encode({ town: "Redmond", lastName: "Smith", id: 1 }),
      "Redmond!Smith!000001",
    );
  });

  it("decodes what it encoded in both layouts", () => {
    for (const layout of ["ordered", "readable"] as const) {
      const shape = new KeyShape(k[layout](k.lit("t"), k.str("a"), k.int("n", 3), k.str("b")));
      fc.assert(
        fc.property(shortText, fc.integer({ min: -999, max: 999 }), shortText, (a, n, b) => {
          assert.deepEqual(shape.decode(shape.encode({ a, n, b })), { a, n, b });
        }),
        { numRuns: 20_000 },
      );
    }
  });

  it("decodes nothing from a key of another shape", () => {
    assert.equal(employee.decode("email_jonesj@contoso.com"), undefined);
    assert.equal(employee.decode("empid"), undefined);
    assert.equal(employee.decode("empid_000223_2012"), undefined);
    const segments = [
      k.uint("x", 3),
      k.uintDesc("x", 3),
      k.int("x", 3),
      k.int64("x"),
      k.double("x"),
      k.date("x"),
      k.dateDesc("x"),
    ];
    const others = [k.bool("x"), k.guid("x"), k.ulid("x"), k.enumOf("x", ["lead", "staff"])];
    for (const segment of [...segments, ...others]) {
      const shape = new KeyShape([k.lit("t"), segment]);
      for (const text of ["none", "", " 2", "1e+3", "0x1"]) {
        assert.equal(shape.decode(`t_${text}`), undefined, text);
      }
    }
    for (const segment of others) {
      assert.equal(new KeyShape([k.lit("t"), segment]).decode("t_2"), undefined);
    }
  });

  it("reads a GUID that other software wrote in capitals", () => {
    const id = "C56A4180-65AA-42EC-A945-5FD21DEC0538";
    assert.deepEqual(new KeyShape([k.guid("id")]).decode(id), { id });
  });

  it("sorts by segment in the ordered layout", () => {
    const shape = new KeyShape(k.ordered(k.str("a"), k.str("b")));
    fc.assert(
      fc.property(shortText, shortText, shortText, shortText, (a, b, c, d) => {
        const tuples = compare(a, c) || compare(b, d);
        assert.equal(compare(shape.encode({ a, b }), shape.encode({ a: c, b: d })), tuples);
      }),
      { numRuns: 100_000 },
    );
  });

  it("refuses ranges over text that the readable layout does not sort", () => {
    const shape = new KeyShape(k.readable(k.str("a"), k.str("b")));
    assert.ok(shape.encode({ a: "ab0", b: "x" }) < shape.encode({ a: "ab", b: "x" }));
    assert.throws(
      () => shape.rangeOf({ a: { gte: "ab" } }),
      (error) => isTableError(error, "validation-failed") && /k\.ordered/.test(error.message),
    );
    assert.deepEqual(shape.rangeOf({ a: { startsWith: "a" } }), { from: "a", to: "b" });
  });

  it("refuses values of another type, even those that the codec alone would convert", () => {
    for (const [segment, value] of [
      [k.bool("x"), "false"],
      [k.bool("x"), 0],
      [k.double("x"), "5"],
      [k.double("x"), []],
      [k.date("x"), 5],
      [k.isoDate("x", "day"), "2014-07-31"],
      [k.str("x"), 5],
      [k.int64("x"), "5"],
      [k.int64("x"), 5],
      [k.hash("x", 4), new Date(0)],
      [k.hash("x", 4), { text: "a" }],
    ] as const) {
      const shape = new KeyShape([k.lit("t"), segment]);
      for (const run of [
        () => shape.encode({ x: value }),
        () => shape.rangeOf({ x: value }),
        () => shape.rangeOf({ x: { gte: value } }),
      ]) {
        assert.throws(run, (error) => isTableError(error, "validation-failed"), String(value));
      }
    }
  });

  it("names the first missing segment even if there are no values at all", () => {
    for (const values of [undefined, null, 5, "text"] as unknown as Record<string, unknown>[]) {
      assert.throws(
        () => employee.encode(values),
        (error) => isTableError(error, "validation-failed") && error.issues[0]?.path === "id",
      );
      check(employee.rangeOf(values), "ge empid_ lt empid`");
    }
  });

  it("refuses numbers of buckets that are not whole numbers from 1", () => {
    for (const declare of [
      () => k.hash("x", 0),
      () => k.hash("x", Number.NaN),
      () => k.hash("x", 1.5),
      () => k.hashCI("x", -1),
    ]) {
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    }
  });

  it("names the segment whose value is missing", () => {
    assert.throws(
      () => employee.encode({}),
      (error) => isTableError(error, "validation-failed") && error.issues[0]?.path === "id",
    );
  });
});

describe("the range of a query", () => {
  it("has the bounds of the published designs", () => {
    check(employee.rangeOf({}), "ge empid_ lt empid`");
    check(employee.rangeOf({ id: { gte: 100, lte: 199 } }), "ge empid_000100 le empid_000199");
    const email = new KeyShape([k.lit("email"), k.str("email")]);
    check(email.rangeOf({ email: { startsWith: "a" } }), "ge email_a lt email_b");
    const reviews = new KeyShape([k.uint("id", 6), k.uint("year", 4)]);
    check(reviews.rangeOf({ id: 123 }), "ge 000123_ lt 000123`");
  });

  it("is a point only if both bounds include the same key", () => {
    const dept = new KeyShape([k.str("dept")]);
    assert.ok(isOneRow(dept.rangeOf({ dept: { gte: "a", lte: "a" } })));
    assert.ok(!isOneRow(dept.rangeOf({ dept: { gte: "a", lt: "a" } })));
    assert.ok(!isOneRow(dept.rangeOf({ dept: { gt: "a", lte: "a" } })));
  });

  it("is reversed for descending segments", () => {
    const claims = new KeyShape([k.uintDesc("n", 3), k.str("id")]);
    check(claims.rangeOf({ n: { gt: 5 } }), "lt 994");
    check(claims.rangeOf({ n: { gte: 5 } }), "lt 994`");
    check(claims.rangeOf({ n: { lt: 5 } }), "ge 994`");
  });

  it("ignores the case of a prefix if the segment ignores case", () => {
    const town = new KeyShape([k.lit("town"), k.strCI("town")]);
    check(town.rangeOf({ town: { startsWith: "ReD" } }), "ge town_red lt town_ree");
    fc.assert(
      fc.property(shortText, shortText, (prefix, rest) => {
        const key = town.encode({ town: prefix + rest });
        const range = town.rangeOf({ town: { startsWith: prefix.toUpperCase() } });
        const isWithin = (prefix + rest)
          .toLowerCase()
          .startsWith(prefix.toUpperCase().toLowerCase());
        assert.equal(contains(range, key), isWithin);
      }),
      { numRuns: 20_000 },
    );
  });

  it("finds by prefix the words that end at its last sigma and those that continue", () => {
    const road = new KeyShape([k.strCI("road"), k.uint("n", 2)]);
    const foldOf = (text: string) => text.toLowerCase();
    const words = fc.string({ unit: fc.constantFrom(..."ΣΣσςΑα. '"), maxLength: 6 });
    let refusals = 0;
    fc.assert(
      fc.property(words, words, words, (prefix, rest, other) => {
        fc.pre(prefix !== "");
        let range: KeyRange;
        try {
          range = road.rangeOf({ road: { startsWith: prefix } });
        } catch (error) {
          // The sigma is followed by a mark that a word may also contain.
          assert.ok(isTableError(error, "validation-failed") && /Σ[.']+$/.test(prefix), prefix);
          refusals++;
          return;
        }
        const keyOf = (road_: string) => road.encode({ road: road_, n: 1 });
        assert.ok(contains(range, keyOf(prefix + rest)), `${prefix}|${rest}`);
        const begun = [foldOf(prefix), foldOf(`${prefix}a`).slice(0, -1)];
        const isWithin = begun.some((text) => foldOf(other).startsWith(text));
        assert.equal(contains(range, keyOf(other)), isWithin, `${prefix} ${other}`);
      }),
      { numRuns: 20_000 },
    );
    assert.ok(refusals > 0);
  });

  it("accepts only plain objects as bounds", () => {
    const refused = (id: unknown) =>
      assert.throws(
        () => employee.rangeOf({ id }),
        (error) => isTableError(error, "validation-failed"),
      );
    for (const id of [[], new Map(), new (class Instant {})(), new Uint8Array(0)]) refused(id);
    check(employee.rangeOf({ id: {} }), "ge empid_ lt empid`");
    check(employee.rangeOf({ id: Object.create(null) }), "ge empid_ lt empid`");
  });

  it("refuses a prefix that is not text, or ends in half a surrogate pair", () => {
    const email = new KeyShape([k.lit("email"), k.str("email")]);
    for (const startsWith of [5, null, {}, "a\ud83d"]) {
      assert.throws(
        () => email.rangeOf({ email: { startsWith } }),
        (error) => isTableError(error, "validation-failed") && error.issues[0]?.path === "email",
      );
    }
  });

  it("refuses a bound after a range, two lower bounds, and ranges over a hash", () => {
    const refused = (run: () => unknown) =>
      assert.throws(run, (error) => isTableError(error, "validation-failed"));
    refused(() => byTown.rangeOf({ town: { gte: "a" }, lastName: "b" }));
    refused(() => byTown.rangeOf({ lastName: "b" }));
    refused(() => employee.rangeOf({ id: { gt: 1, gte: 1 } }));
    refused(() => employee.rangeOf({ id: { startsWith: "1" } }));
    refused(() => new KeyShape([k.hash("id", 4)]).rangeOf({ id: { gt: 1 } }));
  });

  it("selects exactly the keys that a filter over the values would", () => {
    const n = fc.integer({ min: 0, max: 99 });
    const ordered = new KeyShape([k.str("a"), k.str("b"), k.uint("n", 2)]);
    const bound = fc.oneof(
      fc.record({ gte: shortText }, { requiredKeys: [] }),
      fc.record({ gt: shortText, lte: shortText }),
      fc.record({ gte: shortText, lt: shortText }),
      fc.record({ startsWith: shortText }),
    );
    fc.assert(
      fc.property(shortText, shortText, n, bound, fc.boolean(), (a, b, number, bounds, second) => {
        const value = second ? b : a;
        const query = second ? { a, b: bounds } : { a: bounds };
        const key = ordered.encode({ a, b, n: number });
        assert.equal(contains(ordered.rangeOf(query), key), satisfies(value, bounds));
      }),
      { numRuns: 100_000 },
    );
    fc.assert(
      fc.property(shortText, n, n, n, (lastName, number, low, high) => {
        const shape = new KeyShape([
          k.lit("last"),
          k.str("lastName"),
          k.uint("n", 2),
          k.uint("m", 1),
        ]);
        const key = shape.encode({ lastName, n: number, m: 0 });
        const range = shape.rangeOf({ lastName, n: { gt: low, lte: high } });
        assert.equal(contains(range, key), number > low && number <= high);
      }),
      { numRuns: 100_000 },
    );
  });
});

/** The only line that knows how a range is written. */
function check(range: KeyRange, expected: string): void {
  const from = range.from === undefined ? [] : [range.afterFrom ? "gt" : "ge", range.from];
  const to = range.to === undefined ? [] : [range.throughTo ? "le" : "lt", range.to];
  assert.equal([...from, ...to].join(" "), expected);
}

function contains(range: KeyRange, key: string): boolean {
  const { from, to } = range;
  if (from !== undefined && (range.afterFrom ? key <= from : key < from)) return false;
  return to === undefined || (range.throughTo ? key <= to : key < to);
}

interface TextBounds {
  gt?: string;
  gte?: string;
  lt?: string;
  lte?: string;
  startsWith?: string;
}

function satisfies(value: string, { gt, gte, lt, lte, startsWith }: TextBounds): boolean {
  return (
    (gt === undefined || value > gt) &&
    (gte === undefined || value >= gte) &&
    (lt === undefined || value < lt) &&
    (lte === undefined || value <= lte) &&
    (startsWith === undefined || value.startsWith(startsWith))
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
