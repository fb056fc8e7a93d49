import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Crc64 } from "./crc64.ts";

describe("The CRC64 of contents", () => {
  for (const [text, expected] of [
    ["", "AAAAAAAAAAA="],
    ["123456789", "iJh5CoYUi64="],
    ["hello world", "vo7q9sPVKY0="],
    ["The quick brown fox jumps over the lazy dog", "Q8FUSQVUbNc="],
  ] as const) {
    it(`of "${text}" is ${expected}`, () => {
      assert.equal(sumOf([Buffer.from(text)]), expected);
    });
  }

  it("does not depend on how the bytes arrive or where they stand in memory", () => {
    const memory = Uint8Array.from({ length: 4096 }, (_, i) => (i * 31) ^ (i >> 3));
    const bytes = memory.subarray(0, 1000);
    const whole = sumOf([bytes]);
    for (let shift = 0; shift < 20; shift++) {
      const moved = new Uint8Array(bytes.length + shift).subarray(shift);
      moved.set(bytes);
      assert.equal(sumOf([moved]), whole, `${shift} bytes into memory`);
      assert.equal(sumOf([bytes.subarray(0, shift), bytes.subarray(shift)]), whole);
    }
  });
});

function sumOf(parts: readonly Uint8Array[]): string {
  const crc = new Crc64();
  for (const part of parts) crc.update(part);
  return Buffer.from(crc.digest()).toString("base64");
}
