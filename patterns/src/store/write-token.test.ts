import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeClock, seededRandom } from "../testing/fake-clock.ts";
import { IS_TOKEN, newestFirst, tokenBehind, ulids } from "./write-token.ts";

describe("tokens", () => {
  it("have a new random part in each millisecond", () => {
    const clock = new FakeClock(32);
    const digits = [0, 10, 31];
    const token = ulids(clock, () => digits[(clock.now() - 32) % 3]! / 32);
    assert.equal(token(), `0000000010${"0".repeat(16)}`);
    clock.advance(1);
    assert.equal(token(), `0000000011${"A".repeat(16)}`);
    clock.advance(1);
    assert.equal(token(), `0000000012${"Z".repeat(16)}`);
  });

  it("count on within a millisecond, and past the last number into the next one", () => {
    const clock = new FakeClock(31);
    const token = ulids(clock, () => 31 / 32);
    const first = token();
    assert.equal(first, `000000000Z${"Z".repeat(16)}`);
    assert.equal(token(), `0000000010${"0".repeat(16)}`);
    clock.advance(1);
    assert.equal(token(), `0000000010${"0".repeat(15)}1`);
    clock.advance(1);
    assert.equal(token(), `0000000011${"Z".repeat(16)}`);
  });

  it("count on while the clock is behind where it was", () => {
    const clock = new FakeClock(64);
    const token = ulids(clock, () => 0);
    token();
    clock.advance(-40);
    assert.equal(token(), `0000000020${"0".repeat(15)}1`);
    clock.advance(41);
    assert.equal(token(), `0000000021${"0".repeat(16)}`);
  });

  it("sort as they were made, and newest first when they are inverted", () => {
    const random = seededRandom(7);
    const clock = new FakeClock();
    const token = ulids(clock, random);
    const made = Array.from({ length: 500 }, () => {
      clock.advance(Math.floor(random() * 3) - 1);
      return token();
    });
    assert.deepEqual(made.toSorted(), made);
    assert.equal(new Set(made).size, made.length);
    for (const one of made) assert.match(one, IS_TOKEN);
    const inverted = made.map(newestFirst);
    assert.deepEqual(inverted.toSorted(), inverted.toReversed());
    assert.equal(newestFirst("01ABCDEFGHJKMNPQRSTVWXYZ29"), "zynmkjhgfedcba9876543210xp");
  });
});

describe("a token after another", () => {
  const random = seededRandom(1);
  const at = (ms: number) => ulids(new FakeClock(ms), random)();

  it("is the new token itself if it sorts after the other", () => {
    const [earlier, later] = [at(1000), at(2000)];
    assert.equal(tokenBehind(earlier, later), later);
    assert.equal(tokenBehind("", later), later);
  });

  it("has the other's time plus a millisecond if it does not", () => {
    const now = Date.UTC(2026, 0, 1);
    for (const ms of [now, now + 31 - (now % 32), 32 ** 4 - 1, 32 ** 9 - 1]) {
      for (const slow of [at(0), at(ms - 1)]) {
        const token = tokenBehind(at(ms), slow);
        assert.match(token, IS_TOKEN);
        assert.equal(token.slice(0, 10), at(ms + 1).slice(0, 10));
        assert.equal(token.slice(10), slow.slice(10));
      }
    }
  });
});
