import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { announcedBytes, kept, LONG_BYTES } from "./body-bytes.ts";
import type { LentBody } from "./operation.ts";

describe("The length that an answer announces", () => {
  it("is not taken from a header value that equals the name Content-Length", () => {
    const headers = ["x-ms-meta-a", "Content-Length", "Content-Type", "text/plain"];
    assert.equal(announcedBytes(headers), undefined);
    assert.equal(announcedBytes([...headers, "Content-Length", "12"]), 12);
  });
});

describe("A body that has to wait", () => {
  it("is copied if it is lent and short, and its memory is given back", () => {
    const { body, given } = lent(LONG_BYTES - 1);
    const own = kept(body);
    assert.ok(own instanceof Uint8Array);
    assert.deepEqual(
      [own.length, own.every((byte) => byte === 7), given()],
      [LONG_BYTES - 1, true, 1],
    );
  });

  it("stays where it is if it is long, or not lent", () => {
    const { body, given } = lent(LONG_BYTES);
    assert.equal(kept(body), body);
    assert.equal(given(), 0);
    for (const other of [undefined, "text", Buffer.from("bytes")]) assert.equal(kept(other), other);
  });
});

function lent(length: number): { body: LentBody; given: () => number } {
  let given = 0;
  const start = 10;
  const memory = Buffer.alloc(start + length + 10);
  memory.fill(7, start, start + length);
  const body: LentBody = {
    memory,
    start,
    end: start + length,
    giveBack: () => given++,
    async *[Symbol.asyncIterator]() {},
  };
  return { body, given: () => given };
}
