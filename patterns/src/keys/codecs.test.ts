import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { bucketOf, fnv1a, fnv1a128 } from "./hash.ts";
import { k, type Segment } from "./key.ts";
import { decodeText, encodeText, endOfPrefix } from "./text.ts";

const RUNS = 100_000;
const readableMiddle = { escapeUnderscore: true };
const elsewhere = { escapeUnderscore: false };
const LEGAL_IN_KEYS = /^[\x21-\x7e]*$/;
const NEVER_IN_A_SEGMENT = /[\\/#?%!]/;

const specials = '/\\#?%_~!"$.>[^ aAzZ09}|{@\t\u0000\u007f\u0085é\uffff😀';
const anyText = fc
  .string({
    unit: fc.oneof(
      fc.constantFrom(...specials.match(/./gsu)!),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    ),
    maxLength: 8,
  })
  .filter((text) => !/\p{Surrogate}/u.test(text));

describe("the text codec", () => {
  it("preserves order, decodes what it encoded and uses only the allowed characters", () => {
    for (const place of [readableMiddle, elsewhere]) {
      fc.assert(
        fc.property(anyText, anyText, (a, b) => {
          const [keyA, keyB] = [encodeText(a, place), encodeText(b, place)];
          assert.equal(decodeText(keyA), a);
          assert.equal(compare(keyA, keyB), compare(a, b));
          assert.match(keyA, LEGAL_IN_KEYS);
          assert.doesNotMatch(keyA, NEVER_IN_A_SEGMENT);
          if (place.escapeUnderscore) assert.doesNotMatch(keyA, /_/);
        }),
        { numRuns: RUNS },
      );
    }
  });

  it("places exactly the values with a prefix between the prefix and its end", () => {
    for (const place of [readableMiddle, elsewhere]) {
      fc.assert(
        fc.property(anyText, anyText, fc.boolean(), (prefix, rest, extend) => {
          const value = extend ? prefix + rest : rest;
          const key = encodeText(value, place);
          const inside = key >= encodeText(prefix, place) && key < endOfPrefix(prefix, place);
          assert.equal(inside, value.startsWith(prefix), JSON.stringify({ prefix, value }));
        }),
        { numRuns: RUNS },
      );
    }
  });

  it("writes the documented forms", () => {
    assert.equal(encodeText("jonesj@contoso.com", elsewhere), "jonesj@contoso.com");
    assert.equal(encodeText("a/b?c#d\\e%f", elsewhere), 'a.~~b>~~c"23d[~~e$~~f');
    assert.equal(encodeText("Zoë", elsewhere), "Zo~000eb");
    assert.equal(encodeText("x_y", readableMiddle), "x^~~y");
    assert.equal(encodeText("x_y", elsewhere), "x_y");
    assert.equal(encodeText("A B", elsewhere), 'A"20B');
    assert.equal(encodeText("😀", elsewhere), "~0d83d~0de00");
    assert.equal(endOfPrefix("a", elsewhere), "b");
    assert.equal(endOfPrefix("jones.", elsewhere), "jones.~~");
  });

  it("refuses an unpaired surrogate", () => {
    assert.throws(() => encodeText("a\ud800", elsewhere), RangeError);
  });
});

describe("the number and time codecs", () => {
  const uint = fc.oneof(
    fc.integer({ min: 0, max: 999_999 }),
    fc.constantFrom(0, 1, 9, 10, 999_999),
  );
  const int = fc.oneof(
    fc.integer({ min: -999_999, max: 999_999 }),
    fc.constantFrom(-999_999, -1, 0),
  );
  const int64 = fc.oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.constantFrom(-(2n ** 63n), -1n, 0n, 1n, 2n ** 63n - 1n),
  );
  const double = fc.double({ noNaN: true });
  const date = fc.date({
    min: new Date("0001-01-01T00:00:00Z"),
    max: new Date("9999-12-31T23:59:59.999Z"),
    noInvalidDate: true,
  });

  it("preserve order and decode what they encoded", () => {
    checkCodec(k.uint("n", 6), uint, (a, b) => a - b);
    checkCodec(k.uintDesc("n", 6), uint, (a, b) => b - a);
    checkCodec(k.int("n", 6), int, (a, b) => a - b);
    // More digits than a number represents exactly.
    checkCodec(k.uintDesc("n", 18), fc.maxSafeNat(), (a, b) => b - a, 10_000);
    checkCodec(k.uintDesc("n", 18), uint, (a, b) => b - a, 10_000);
    checkCodec(k.int("n", 18), int, (a, b) => a - b, 10_000);
    checkCodec(k.int64("n"), int64, (a, b) => Number(a > b) - Number(a < b));
    checkCodec(k.double("n"), double, (a, b) => Number(a > b) - Number(a < b));
    checkCodec(k.date("t"), date, (a, b) => a.getTime() - b.getTime());
    checkCodec(k.dateDesc("t"), date, (a, b) => b.getTime() - a.getTime());
    checkCodec(k.bool("b"), fc.boolean(), (a, b) => Number(a) - Number(b), 100);
    checkCodec(
      k.enumOf("e", ["staff", "lead"]),
      fc.constantFrom("staff", "lead"),
      (a, b) => compare(b, a),
      100,
    );
  });

  it("write the documented forms", () => {
    const on = (iso: string) => new Date(iso);
    assert.equal(encode(k.uint("n", 6), 223), "000223");
    assert.equal(encode(k.uint("n", 8), 123), "00000123");
    assert.equal(encode(k.uintDesc("n", 6), 223), "999776");
    assert.equal(encode(k.int("n", 6), -5), "-999994");
    assert.equal(encode(k.int("n", 6), 0), "000000");
    assert.equal(encode(k.int64("n"), -1n), "7fffffffffffffff");
    assert.equal(encode(k.int64("n"), 0n), "8000000000000000");
    assert.equal(encode(k.double("n"), Number.NEGATIVE_INFINITY), "000fffffffffffff");
    assert.equal(encode(k.double("n"), -1.5), "4007ffffffffffff");
    assert.equal(encode(k.double("n"), -0), "8000000000000000");
    assert.equal(encode(k.double("n"), 1), "bff0000000000000");
    assert.equal(encode(k.double("n"), 100), "c059000000000000");
    assert.equal(encode(k.date("t"), on("2014-07-31T18:00:00Z")), "0635424264000000000");
    assert.equal(encode(k.dateDesc("t"), on("2014-07-31T18:00:00Z")), "2519954711999999999");
    assert.equal(encode(k.dateDesc("t"), on("2014-07-31T18:00:00.001Z")), "2519954711999989999");
    assert.equal(encode(k.dateDesc("t"), on("0001-01-01T00:00:00Z")), "3155378975999999999");
    assert.equal(encode(k.dateDesc("t"), on("1970-01-01T00:00:00Z")), "2534023007999999999");
    assert.equal(encode(k.dateDesc("t"), on("9999-12-31T23:59:59.999Z")), "0000000000000009999");
    const periods = (["year", "month", "day", "hour"] as const).map((unit) =>
      encode(k.isoDate("t", unit), on("2014-07-31T18:20:00Z")),
    );
    assert.deepEqual(periods, ["2014", "201407", "20140731", "2014073118"]);
  });

  it("refuse values that they cannot represent", () => {
    assert.throws(() => encode(k.uint("n", 2), 100), RangeError);
    assert.throws(() => encode(k.uint("n", 2), 1.5), RangeError);
    assert.throws(() => encode(k.uint("n", 18), 2 ** 53), RangeError);
    assert.throws(() => encode(k.int("n", 2), -100), RangeError);
    assert.throws(() => encode(k.int64("n"), 2n ** 63n), RangeError);
    assert.throws(() => encode(k.double("n"), Number.NaN), RangeError);
    assert.throws(() => encode(k.date("t"), new Date(Number.NaN)), RangeError);
    assert.throws(() => encode(k.date("t"), new Date(Date.UTC(10_000, 0))), RangeError);
    assert.throws(() => encode(k.guid("g"), "no guid"), RangeError);
    const overflow = k.str("s", { max: 2, overflow: "hash" });
    assert.throws(() => encode(overflow, "abc\ud800"), RangeError);
    assert.match(encode(overflow, "a😀c"), /^a~[0-9a-f]{32}$/);
    const role: Segment<string, string> = k.enumOf("role", ["staff", "lead"]);
    assert.throws(() => encode(role, "guest"), /"guest" is not one of staff,lead/);
  });
});

describe("the hashes", () => {
  it("are FNV-1a over UTF-8", () => {
    assert.equal(fnv1a(""), 2_166_136_261);
    assert.equal(fnv1a("a").toString(16), "e40c292c");
    assert.equal(fnv1a("foobar").toString(16), "bf9cf968");
    assert.equal(fnv1a("Sales|000223"), 349_964_488);
    assert.equal(bucketOf("Sales|000223", 16), "08");
    assert.equal(fnv1a128("a"), "d228cb696f1a8caf78912b704e4a8964");
  });

  it("put all spellings of a value into one bucket only if case is ignored", () => {
    const spellings = ["Zoë@x.example", "zoe\u0308@X.example", "ZOË@X.EXAMPLE"];
    const bucketsBy = <Value>(segment: Segment<string, Value | string>) =>
      new Set(spellings.map((spelling) => encode(segment, spelling)));
    assert.equal(bucketsBy(k.hashCI("email", 1000)).size, 1);
    assert.equal(bucketsBy(k.hash("email", 1000)).size, 3);
    assert.equal(
      encode(k.hashCI("email", 1000), "a@b.example"),
      encode(k.hash("email", 1000), "a@b.example"),
    );
    assert.throws(() => encode(k.hashCI("email", 16), 5 as never), /text is expected/);
  });

  it("spread ids evenly", () => {
    const counts = new Map<string, number>();
    for (let id = 0; id < 10_000; id++) {
      const bucket = bucketOf(String(id), 16);
      counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
    }
    assert.ok(Math.max(...counts.values()) < (10_000 / 16) * 1.5);
  });
});

function encode<Value>(segment: Segment<string, Value>, value: Value): string {
  return segment.encode(value, elsewhere);
}

function checkCodec<Value>(
  segment: Segment<string, Value>,
  values: fc.Arbitrary<Value>,
  order: (a: Value, b: Value) => number,
  numRuns = RUNS,
): void {
  fc.assert(
    fc.property(values, values, (a, b) => {
      const [keyA, keyB] = [encode(segment, a), encode(segment, b)];
      assert.ok(order(segment.decode(keyA), a) === 0, `${String(a)} → ${keyA}`);
      assert.equal(compare(keyA, keyB), Math.sign(order(a, b)), `${keyA} ${keyB}`);
      assert.match(keyA, LEGAL_IN_KEYS);
      assert.doesNotMatch(keyA, NEVER_IN_A_SEGMENT);
    }),
    { numRuns },
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
