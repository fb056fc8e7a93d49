import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { VersionClock } from "./version-clock.ts";

const MS = Date.parse("2026-07-31T18:00:00Z");
const clock = { now: () => MS };

describe("A version clock", () => {
  it("keeps counting when the clock stands still or goes back", () => {
    let ms = MS;
    const versions = new VersionClock({ now: () => ms });
    assert.deepEqual([versions.next(), versions.next()], [MS * 1000, MS * 1000 + 1]);
    ms--;
    assert.equal(versions.next(), MS * 1000 + 2);
    ms += 2;
    assert.equal(versions.next(), (MS + 1) * 1000);
  });

  it("never hands out a version of another of 16 clocks, whatever they have seen of each other", () => {
    const clocks = Array.from({ length: 16 }, (_, index) => taken(40 + index));
    const handedOut: number[] = [];
    for (let round = 0; round < 200; round++) {
      for (const [index, versions] of clocks.entries()) {
        const other = clocks[(index * 7 + round) % clocks.length]!;
        const version = round % 3 === 0 ? versions.nextAbove(other.next()) : versions.next();
        handedOut.push(version);
      }
    }
    assert.equal(new Set(handedOut).size, handedOut.length);
  });

  it("starts at another version than the clocks that share its digit", () => {
    const clocks = Array.from({ length: 60 }, (_, index) => taken(3 + 16 * index));
    assert.equal(new Set(clocks.map((versions) => versions.next())).size, clocks.length);
  });

  it("only grows, starting in the current millisecond, whatever its slot", () => {
    for (const slot of [0, 1, 15, 16, 991, 992, 1e9 + 7]) {
      const versions = taken(slot);
      let last = versions.next();
      assert.equal(Math.floor(last / 1000), MS, `slot ${slot}`);
      for (let i = 0; i < 100; i++) {
        const next = i % 10 === 0 ? versions.nextAbove(last + i) : versions.next();
        assert.ok(next > last, `slot ${slot}`);
        last = next;
      }
    }
  });
});

function taken(slot: number): VersionClock {
  const versions = new VersionClock(clock);
  versions.takeSlot(slot);
  return versions;
}
