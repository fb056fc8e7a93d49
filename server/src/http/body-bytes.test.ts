import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { announcedBytes } from "./body-bytes.ts";

describe("The length that an answer announces", () => {
  it("is not taken from a header value that equals the name Content-Length", () => {
    const headers = ["x-ms-meta-a", "Content-Length", "Content-Type", "text/plain"];
    assert.equal(announcedBytes(headers), undefined);
    assert.equal(announcedBytes([...headers, "Content-Length", "12"]), 12);
  });
});
