import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../auth/test-request.ts";
import { Query } from "./query.ts";
import { integerParameter } from "./query-parameters.ts";

describe("Query parameters", () => {
  it("are found in any case of their names", () => {
    const query = new Query("Include=a&COMP=list&include=b&comp=acl");
    assert.equal(query.get("comp"), "list");
    assert.deepEqual(query.getAll("include"), ["a", "b"]);
    assert.equal(query.get("com"), undefined);
  });

  it("are whole numbers within their bounds", () => {
    assert.equal(read("n=1"), 1);
    assert.equal(read("n=32"), 32);
    assert.equal(read(""), undefined);
  });

  it("are rejected with the bounds if they are outside them", () => {
    for (const value of ["0", "33", "-1", "9".repeat(400)]) {
      const { code, details } = refusalOf(() => read(`n=${value}`));
      assert.equal(code, "OutOfRangeQueryParameterValue");
      assert.deepEqual(details, [
        ["QueryParameterName", "n"],
        ["QueryParameterValue", value],
        ["MinimumAllowed", "1"],
        ["MaximumAllowed", "32"],
      ]);
    }
  });

  it("are rejected if they are not whole numbers", () => {
    for (const value of ["", "x", "1.5", "+1", "1e1", "0x1", " 1"]) {
      const { code, details } = refusalOf(() => read(`n=${encodeURIComponent(value)}`));
      assert.equal(code, "InvalidQueryParameterValue");
      assert.deepEqual(details.slice(0, 2), [
        ["QueryParameterName", "n"],
        ["QueryParameterValue", value],
      ]);
    }
  });
});

function read(query: string) {
  return integerParameter(new Query(query), "n", { min: 1, max: 32 });
}
