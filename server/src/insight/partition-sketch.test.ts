import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PartitionSketch } from "./partition-sketch.ts";
import { seeded } from "./test-traffic.ts";

const SEED = 20_261_120;

describe(`A partition sketch on skewed random traffic (seed ${SEED})`, () => {
  const random = seeded(SEED);
  const exact = new Map<string, number>();
  const sketch = new PartitionSketch(0);
  const partitions = 100_000;
  for (let i = 0; i < 300_000; i++) {
    // Zipf-like: the k-th partition gets about 1/k of the first one's traffic.
    const rank = Math.floor(partitions ** random());
    const name = `account/Orders/customer-${rank}`;
    const entities = 1 + Math.floor(random() * 3);
    exact.set(name, (exact.get(name) ?? 0) + entities);
    sketch.add(name, entities, 0);
  }
  const total = [...exact.values()].reduce((a, b) => a + b);
  const bound = (Math.E * total) / 2 ** 16;

  it("counts the total exactly", () => assert.equal(sketch.total, total));

  it("never underestimates a partition", () => {
    for (const [name, truth] of exact) assert.ok(sketch.estimate(name) >= truth, name);
  });

  it("overestimates by at most e·N/2^16, except for 2 % of the partitions", () => {
    const beyond = [...exact].filter(([name, truth]) => sketch.estimate(name) - truth > bound);
    assert.ok(beyond.length <= 0.02 * exact.size, `${beyond.length} of ${exact.size}`);
  });

  it("tracks every partition whose load exceeds that of the lightest tracked one", () => {
    const followed = sketch.heaviest(Number.POSITIVE_INFINITY);
    const names = new Set(followed.map(({ name }) => name));
    const least = followed.at(-1)!.load;
    assert.equal(names.size, 1024);
    for (const [name, truth] of exact) if (truth > least) assert.ok(names.has(name), name);
  });

  it("ranks the heaviest partitions correctly, and overestimates none by more than its reported excess", () => {
    const truth = [...exact].sort((a, b) => b[1] - a[1]).slice(0, 50);
    const found = sketch.heaviest(50);
    assert.deepEqual(
      found.slice(0, 20).map(({ name }) => name),
      truth.slice(0, 20).map(([name]) => name),
    );
    for (const { name, load, excess } of found) {
      assert.ok(load - excess <= exact.get(name)! && exact.get(name)! <= load, name);
    }
  });
});

describe("A decaying count", () => {
  it("reports the rate of a steady load, and forgets a burst of long ago", () => {
    const sketch = new PartitionSketch(0, { halfLifeMs: 1000 });
    sketch.add("burst", 1_000_000, 0);
    // Long enough to rescale the counters several times.
    let now = 0;
    for (; now < 100_000; now += 10) sketch.add("steady", 5, now);
    const rate = sketch.perSecond(sketch.estimate("steady"), now);
    assert.ok(Math.abs(rate - 500) < 5, `${rate}`);
    assert.ok(sketch.perSecond(sketch.estimate("burst"), now) < 0.001);
  });

  it("keeps the ranking if there are more partitions than it tracks", () => {
    const sketch = new PartitionSketch(0, { followedMax: 2 });
    for (const name of ["a", "a", "a", "b", "c", "c", "d", "c"]) sketch.add(name, 1, 0);
    assert.deepEqual(
      sketch.heaviest(2).map(({ name, load }) => [name, load]),
      [
        ["a", 3],
        ["c", 3],
      ],
    );
    assert.equal(sketch.estimate("b"), 1);
  });
});
