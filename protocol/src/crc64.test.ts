import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
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

  it("does not depend on how the bytes are split or where they are in memory", () => {
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

  it("is the same in WebAssembly and byte by byte, for any parts", () => {
    // Lengths near one word, two words, the minimum for WebAssembly, and the size of the module's memory.
    const length = fc.oneof(
      fc.nat(200),
      fc.integer({ min: 8150, max: 12_000 }),
      fc.integer({ min: 262_100, max: 270_400 }),
    );
    const part = fc.record({ length, seed: fc.nat(), shift: fc.nat(7) }).map(noise);
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), (parts) => {
        assert.equal(sumOf(parts), sumOf(parts.flatMap(inShortPieces)));
      }),
      { numRuns: 150 },
    );
  });

  it("of two concatenated contents follows from the checksum of each", () => {
    const part = fc.record({ length: fc.nat(3000), seed: fc.nat(), shift: fc.constant(0) });
    fc.assert(
      fc.property(part.map(noise), part.map(noise), (first, second) => {
        const sum = new Crc64().update(first).append(new Crc64().update(second), second.length);
        assert.equal(Buffer.from(sum.digest()).toString("base64"), sumOf([first, second]));
      }),
    );
  });
});

/** In pieces too short for WebAssembly. */
function inShortPieces(bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += 100) pieces.push(bytes.subarray(at, at + 100));
  return pieces;
}

function noise(of: { length: number; seed: number; shift: number }): Uint8Array {
  let word = of.seed | 1;
  const bytes = new Uint8Array(of.shift + of.length).subarray(of.shift);
  for (let i = 0; i < bytes.length; i++) {
    word = Math.imul(word, 1_664_525) + 1_013_904_223;
    bytes[i] = word >>> 24;
  }
  return bytes;
}

function sumOf(parts: readonly Uint8Array[]): string {
  const crc = new Crc64();
  for (const part of parts) crc.update(part);
  return Buffer.from(crc.digest()).toString("base64");
}
