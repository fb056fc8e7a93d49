import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isProtocolVersion } from "./protocol-version.ts";

describe("A version of the protocol", () => {
  it("is any date of the calendar", () => {
    for (const version of ["2019-02-02", "2020-02-29", "2000-02-29", "2019-12-31", "9999-04-30"]) {
      assert.ok(isProtocolVersion(version), version);
    }
  });

  it("is neither an impossible date nor any other text", () => {
    const noDates = ["2019-02-29", "2019-02-30", "2100-02-29", "2019-04-31", "2019-01-32"];
    const noForms = ["2019-13-01", "2019-00-01", "2019-01-00", "2019-1-1", "", "latest"];
    for (const text of [...noDates, ...noForms, " 2019-02-02", "2019-02-02\n", "12019-02-02"]) {
      assert.ok(!isProtocolVersion(text), text);
    }
  });
});
