import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../auth/test-request.ts";
import { blockIdBytes, checkBlockId } from "./block-id.ts";

describe("A block id", () => {
  it("is base64 of 1 to 64 bytes", () => {
    for (const bytes of [1, 2, 3, 48, 63, 64]) {
      const id = Buffer.alloc(bytes, 0xfb).toString("base64");
      checkBlockId(id);
      assert.equal(blockIdBytes(id), bytes);
    }
    for (const id of [
      "",
      "A",
      "AAA",
      "A===",
      "AA=A",
      "AA-_",
      Buffer.alloc(65).toString("base64"),
    ]) {
      const { code, details } = refusalOf(() => checkBlockId(id));
      assert.equal(code, "InvalidQueryParameterValue");
      assert.deepEqual(details[0], ["QueryParameterName", "blockid"]);
    }
  });
});
