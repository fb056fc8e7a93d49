import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf, sketchRequest } from "../auth/test-request.ts";
import { clipRange, rangeOf } from "./byte-range.ts";

describe("A range of bytes", () => {
  for (const [text, expected] of [
    ["bytes=0-0", "0-1"],
    ["bytes=0-", "0-11"],
    ["bytes=5-1000", "5-11"],
    ["bytes=10-10", "10-11"],
    ["BYTES=2-3", "2-4"],
    ["bytes=11-", "refused"],
    ["bytes=12-13", "refused"],
    ["bytes=-5", "ignored"],
    ["bytes=0-1,3-4", "ignored"],
    ["bytes=3-2", "ignored"],
    ["lines=0-1", "ignored"],
    ["bytes=0-9223372036854775807", "0-11"],
    ["bytes=5-18446744073709551615", "5-11"],
    ["bytes=9223372036854775807-", "refused"],
    [`bytes=4-${"9".repeat(400)}`, "4-11"],
    ["", "ignored"],
  ] as const) {
    it(`"${text}" of 11 bytes is ${expected}`, () => {
      assert.equal(clipped({ Range: text }, 11), expected);
    });
  }

  it("of an empty blob is refused", () => {
    assert.equal(clipped({ Range: "bytes=0-" }, 0), "refused");
    const { headers } = refusalOf(() => clipRange({ first: 0, last: 3 }, 0));
    assert.deepEqual(headers, [["Content-Range", "bytes */0"]]);
  });

  it("comes from x-ms-range in preference to Range", () => {
    assert.equal(clipped({ Range: "bytes=0-0", "x-ms-range": "bytes=1-2" }, 11), "1-3");
  });
});

function clipped(headers: Record<string, string>, size: number): string {
  const range = rangeOf(sketchRequest("GET /devstoreaccount1/docs/a", { headers }));
  if (range === undefined) return "ignored";
  try {
    const { start, end } = clipRange(range, size);
    return `${start}-${end}`;
  } catch {
    return "refused";
  }
}
