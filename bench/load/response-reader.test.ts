import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ResponseReader } from "./response-reader.ts";

const ANSWERS = {
  "a body of a known length": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: a\r\n\r\nhello",
  "a chunked body":
    "HTTP/1.1 200 OK\r\nETag: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
  "a chunked body with a trailer":
    "HTTP/1.1 200 OK\r\nETag: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n",
};

describe("a response reader", () => {
  for (const [name, answer] of Object.entries(ANSWERS)) {
    it(`reads ${name} wherever the bytes are split`, () => {
      const bytes = Buffer.from(answer, "latin1");
      for (let cut = 1; cut < bytes.length; cut++) {
        const reader = new ResponseReader();
        for (let round = 0; round < 2; round++) {
          assert.equal(reader.read(bytes.subarray(0, cut)), false, `cut at ${cut}`);
          assert.equal(reader.read(bytes.subarray(cut)), true, `cut at ${cut}`);
          assert.equal(reader.status, 200);
          assert.equal(reader.bodyBytes, 5);
          assert.equal(reader.header("etag"), "a");
        }
      }
    });
  }

  it("expects no body after a 204", () => {
    const reader = new ResponseReader();
    assert.equal(reader.read(Buffer.from("HTTP/1.1 204 No Content\r\nETag: b\r\n\r\n")), true);
    assert.equal(reader.header("etag"), "b");
    assert.equal(reader.header("location"), undefined);
  });

  it("rejects bytes that no request asked for", () => {
    const reader = new ResponseReader();
    const bytes = Buffer.from("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab");
    assert.throws(() => reader.read(bytes), /after the end/);
  });
});
