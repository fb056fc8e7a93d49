import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hexOf, isText, textOfBytes } from "./blob-data.ts";

describe("The bytes of a blob", () => {
  it("are shown in hex with their offsets, and as text without halves of characters", () => {
    const bytes = new TextEncoder().encode("é0123456789abcdef");
    assert.equal(
      hexOf(bytes, 256),
      "00000100  c3 a9 30 31 32 33 34 35 36 37 38 39 61 62 63 64  ··0123456789abcd\n" +
        `00000110  ${"65 66".padEnd(47)}  ef`,
    );
    assert.equal(textOfBytes(bytes.subarray(1), true), "0123456789abcdef");
    assert.equal(textOfBytes(bytes, true), "é0123456789abcdef");
  });

  it("are text unless they hold zeros or are mostly no UTF-8", () => {
    assert.equal(isText(new TextEncoder().encode("a line\nträgt")), true);
    assert.equal(isText(new Uint8Array([65, 0, 66])), false);
    assert.equal(isText(new Uint8Array(200).fill(0xff)), false);
    assert.equal(isText(new Uint8Array(0)), true);
  });
});
