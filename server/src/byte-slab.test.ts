import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { takeBytes } from "./byte-slab.ts";

describe("Memory from a slab", () => {
  it("has the requested length and overlaps no other", () => {
    const lengths = [1, 4096, 4097, 0, 16_384, 16_385, 300_000, 7];
    const taken = Array.from({ length: 20 }, () => lengths).flatMap((round) =>
      round.map((length) => ({ length, bytes: takeBytes(length) })),
    );
    for (const [index, { bytes }] of taken.entries()) bytes.fill(index);
    for (const [index, { length, bytes }] of taken.entries()) {
      assert.equal(bytes.length, length);
      assert.ok(bytes.every((byte) => byte === index % 256));
    }
  });
});
