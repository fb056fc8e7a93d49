import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { etagOf, lastModifiedOf, nextModified, validatorHeaders } from "./validators.ts";

const MICROS = Date.parse("2026-07-31T18:00:00Z") * 1000;

describe("The validators of a blob", () => {
  it("are an ETag of 15 digits for the microsecond, and a Last-Modified of the second", () => {
    assert.match(etagOf(MICROS), /^0x8DE[0-9A-F]{12}$/);
    assert.notEqual(etagOf(MICROS), etagOf(MICROS + 1));
    assert.equal(lastModifiedOf(MICROS + 999_999), "Fri, 31 Jul 2026 18:00:00 GMT");
    assert.deepEqual(validatorHeaders(MICROS), [
      "ETag",
      `"${etagOf(MICROS)}"`,
      "Last-Modified",
      "Fri, 31 Jul 2026 18:00:00 GMT",
    ]);
  });

  it("increase with every change, whatever the clock says", () => {
    assert.equal(nextModified(MICROS, undefined), MICROS);
    assert.equal(nextModified(MICROS, MICROS - 5), MICROS);
    assert.equal(nextModified(MICROS, MICROS), MICROS + 1);
    assert.equal(nextModified(MICROS, MICROS + 100), MICROS + 101);
  });
});
