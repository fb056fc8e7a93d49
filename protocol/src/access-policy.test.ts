import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { policyInstant, printPolicyTime } from "./access-policy.ts";

describe("Times of access policies", () => {
  it("are printed with seven fraction digits, in whichever form they were sent", () => {
    const printed = {
      "2011-10-11": "2011-10-11T00:00:00.0000000Z",
      "2011-10-11T22:30Z": "2011-10-11T22:30:00.0000000Z",
      "2011-10-11T22:30:15Z": "2011-10-11T22:30:15.0000000Z",
      "2011-10-11T22:30:15.5Z": "2011-10-11T22:30:15.5000000Z",
      "2011-10-11T22:30:15.123456Z": "2011-10-11T22:30:15.1234560Z",
      "2011-10-11T22:30:15.1234567Z": "2011-10-11T22:30:15.1234567Z",
      "9999-12-31T23:59:59.9999999Z": "9999-12-31T23:59:59.9999999Z",
    };
    for (const [sent, expected] of Object.entries(printed)) {
      assert.equal(printPolicyTime(sent), expected);
    }
  });

  it("are instants with a precision of a millisecond", () => {
    assert.equal(policyInstant("1970-01-02"), 86_400_000);
    assert.equal(policyInstant("1970-01-01T00:00:01.9999999Z"), 1999);
  });

  it("must be real dates and have a time zone", () => {
    for (const text of [
      "",
      "2011-02-30",
      "2011-13-01",
      "2011-10-11T10:60Z",
      "2011-10-11T24:00Z",
      "2011-10-11T22:30",
      "11 Oct 2011",
    ]) {
      assert.equal(printPolicyTime(text), undefined, text);
      assert.equal(policyInstant(text), undefined, text);
    }
  });
});
