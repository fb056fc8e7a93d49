import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeClock, seededRandom } from "../testing/fake-clock.ts";
import { IS_TOKEN, tokenBehind, ulid } from "./write-token.ts";

describe("a token after another", () => {
  const random = seededRandom(1);
  const at = (ms: number) => ulid(new FakeClock(ms), random);

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
