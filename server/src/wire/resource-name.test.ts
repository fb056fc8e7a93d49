import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../auth/test-request.ts";
import { checkResourceName } from "./resource-name.ts";

describe("The name of a queue or container", () => {
  it("has 3 to 63 lower-case letters and digits, with single hyphens between them", () => {
    for (const name of ["abc", "0-9", "a-b-c", "a".repeat(63)]) checkResourceName(name);
  });

  it("is rejected first for its length, then for its characters", () => {
    for (const name of ["", "A_", "a".repeat(64)]) {
      assert.equal(refusalOf(() => checkResourceName(name)).code, "OutOfRangeInput");
    }
    for (const name of ["Abc", "a_b", "-ab", "ab-", "a--b", "abé", "abc\n"]) {
      const { code, message } = refusalOf(() => checkResourceName(name));
      assert.equal(code, "InvalidResourceName");
      assert.equal(message, "The specified resource name contains invalid characters.");
    }
  });
});
