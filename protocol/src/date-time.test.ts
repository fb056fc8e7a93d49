import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  comparePrinted,
  INSTANT_SECONDS_MAX,
  PROPERTY_SECONDS_MIN,
  parseDateTime,
  printDateTime,
  secondsOfMicros,
  ticksOfInstant,
  ticksOfMicros,
  ticksWithinSecond,
  writeEtagInstant,
  writeInstant,
} from "./date-time.ts";

const TICKS_MAX = ticksOfInstant({ seconds: INSTANT_SECONDS_MAX, ticks: 9_999_999 });

describe("Printing an instant", () => {
  it("drops trailing zeros of the fraction", () => {
    check("2017-08-30T13:20:33.4139140Z", "2017-08-30T13:20:33.413914Z");
    check("2012-11-10T03:04:05.200Z", "2012-11-10T03:04:05.2Z");
    check("2021-01-06T01:01:30.9296707Z", "2021-01-06T01:01:30.9296707Z");
    check("2021-01-06T01:01:30.0000001Z", "2021-01-06T01:01:30.0000001Z");
  });

  it("drops the fraction of a whole second", () => {
    check("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00Z");
  });

  it("covers the years 1 to 9999", () => {
    assert.equal(printDateTime(0n), "0001-01-01T00:00:00Z");
    assert.equal(printDateTime(TICKS_MAX), "9999-12-31T23:59:59.9999999Z");
    assert.equal(
      printDateTime(ticksOfInstant({ seconds: PROPERTY_SECONDS_MIN, ticks: 0 })),
      "1601-01-01T00:00:00Z",
    );
  });

  it("writes the same text for an ETag, with colons escaped", () => {
    const out = new Uint8Array(40);
    const end = writeEtagInstant(out, 2, 0, 5_000_000);
    assert.equal(new TextDecoder().decode(out.subarray(2, end)), "0001-01-01T00%3A00%3A00.5Z");
  });

  function check(given: string, printed: string): void {
    assert.equal(printDateTime(parseDateTime(given)!), printed);
  }
});

describe("Parsing an instant", () => {
  it("accepts dates, minutes, seconds and fractions", () => {
    for (const [text, printed] of [
      ["2011-10-11", "2011-10-11T00:00:00Z"],
      ["2011-10-11T07:30", "2011-10-11T07:30:00Z"],
      ["2011-10-11T07:30Z", "2011-10-11T07:30:00Z"],
      ["2011-10-11T07:30:59Z", "2011-10-11T07:30:59Z"],
      ["2011-10-11T07:30:59.1234567899Z", "2011-10-11T07:30:59.1234567Z"],
      ["2012-02-29T23:59:59", "2012-02-29T23:59:59Z"],
      ["2000-02-29", "2000-02-29T00:00:00Z"],
    ] as const) {
      assert.equal(printDateTime(parseDateTime(text)!), printed, text);
    }
  });

  it("converts offsets to UTC", () => {
    for (const [text, printed] of [
      ["2012-01-01T01:00:00+02:00", "2011-12-31T23:00:00Z"],
      ["2012-01-01T01:00:00.25-05:30", "2012-01-01T06:30:00.25Z"],
      ["2012-01-01T01:00+14:00", "2011-12-31T11:00:00Z"],
    ] as const) {
      assert.equal(printDateTime(parseDateTime(text)!), printed, text);
    }
  });

  it("refuses everything else", () => {
    for (const text of [
      "",
      "2012",
      "2012-13-01",
      "2012-00-01",
      "2012-01-00",
      "2011-02-29",
      "1900-02-29",
      "2012-01-01T",
      "2012-01-01T1:00:00Z",
      "2012-01-01T24:00:00Z",
      "2012-01-01T00:60:00Z",
      "2012-01-01T00:00:60Z",
      "2012-01-01T00:00:00.Z",
      "2012-01-01T00:00:0",
      "2012-01-01T00:00:00ZZ",
      "2012-01-01T00:00:00+15:00",
      "2012-01-01T00:00:00+1:00",
      "2012-01-01 00:00:00Z",
      "2012-01-01t00:00:00z",
      "0000-12-31T00:00:00Z",
      "0001-01-01T00:00:00+00:01",
      "9999-12-31T23:59:59-00:01",
      "9999-12-31T23:59:00-00:01",
      "2012-01-01T00:00:00.é",
      `2012-01-01T00:00:00.${"1".repeat(43)}Zé`,
      `2012-01-01T00:00:00.${"1".repeat(60)}Z`,
    ]) {
      assert.equal(parseDateTime(text), undefined, text);
    }
  });

  it("returns undefined or an instant in range for any text", () => {
    const parts = fc.array(fc.constantFrom(..."0123456789-:TZ.+ é".split("")), { maxLength: 40 });
    fc.assert(
      fc.property(parts, (characters) => {
        const ticks = parseDateTime(characters.join(""));
        assert.ok(ticks === undefined || (ticks >= 0n && ticks <= TICKS_MAX));
      }),
    );
  });

  it("reads back every instant that was printed", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: TICKS_MAX }), (ticks) => {
        assert.equal(parseDateTime(printDateTime(ticks)), ticks);
      }),
    );
  });
});

describe("Printed instants", () => {
  it("are in the order of their ticks", () => {
    const ticks = fc.bigInt({ min: 0n, max: TICKS_MAX });
    const distances = fc.constantFrom(0n, 1n, 9n, 10n, 5_000_000n, 10_000_000n, 864_000_000_000n);
    fc.assert(
      fc.property(
        ticks,
        fc.oneof(distances, ticks),
        fc.constantFrom(1n, 10_000_000n),
        (a, by, unit) => {
          const first = (a / unit) * unit;
          const other = (first + by) % TICKS_MAX;
          const bytes = new TextEncoder().encode(`"${printDateTime(first)}"`);
          const printed = new TextEncoder().encode(printDateTime(other));
          const order = comparePrinted(bytes, 1, bytes.length - 1, printed);
          assert.equal(Math.sign(order), first < other ? -1 : first > other ? 1 : 0);
        },
      ),
    );
  });
});

describe("Timestamps", () => {
  it("agree with the platform's own calendar", () => {
    const millis = fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 });
    const ticksOf1970 = ticksOfMicros(0);
    fc.assert(
      fc.property(millis, (value) => {
        const expected = new Date(value).toISOString().replace(/\.?0*Z$/, "Z");
        assert.equal(printDateTime(ticksOf1970 + BigInt(value) * 10_000n), expected);
      }),
    );
  });

  it("print the same from microseconds as from ticks", () => {
    const out = new Uint8Array(40);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (micros) => {
        const text = printDateTime(ticksOfMicros(micros));
        const end = writeInstant(out, 0, secondsOfMicros(micros), ticksWithinSecond(micros));
        assert.equal(new TextDecoder().decode(out.subarray(0, end)), text);
      }),
    );
  });
});
