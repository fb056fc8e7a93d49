import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { parseHttpDate } from "./http-date.ts";

describe("An HTTP date", () => {
  it("is parsed to the instant it was printed from", () => {
    const seconds = fc.integer({ min: -30_610_224_000, max: 253_402_300_799 }); // The years 1000 to 9999.
    fc.assert(
      fc.property(seconds, (second) => {
        assert.equal(parseHttpDate(new Date(second * 1000).toUTCString()), second * 1000);
      }),
    );
  });

  for (const text of [
    "",
    "Wed, 06 Jan 2021 01:01:30",
    "Wed, 06 Jan 2021 01:01:30 UTC",
    "Wed, 6 Jan 2021 01:01:30 GMT",
    "wed, 06 Jan 2021 01:01:30 GMT",
    "Thu, 06 Jan 2021 01:01:30 GMT",
    "Wed, 06 jan 2021 01:01:30 GMT",
    "Wed, 31 Feb 2021 01:01:30 GMT",
    "Wed, 06 Jan 2021 24:00:00 GMT",
    "Wed, 06 Jan 2021 01:60:30 GMT",
    "Wed, 06 Jan 0021 01:01:30 GMT",
    "Wednesday, 06-Jan-21 01:01:30 GMT",
    "2021-01-06T01:01:30Z",
    " Wed, 06 Jan 2021 01:01:30 GMT",
    "Wed, 06 Jan 2021 01:01:30 GMT\n",
  ]) {
    it(`is not ${JSON.stringify(text)}`, () => {
      assert.equal(parseHttpDate(text), undefined);
    });
  }
});
