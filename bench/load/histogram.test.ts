import assert from "node:assert/strict";
import { it } from "node:test";
import { Histogram } from "./histogram.ts";

it("a histogram reports quantiles within 1.6 % from microseconds to minutes", () => {
  const histogram = new Histogram();
  for (let i = 1; i <= 100_000; i++) histogram.record(i * 0.5);
  for (const share of [0.001, 0.5, 0.99, 0.999, 1]) {
    const expected = 50_000 * share;
    const ratio = histogram.quantile(share) / expected;
    assert.ok(ratio > 0.984 && ratio < 1.016, `${share}: ${histogram.quantile(share)}`);
  }
});

it("a histogram adds up the latencies that several processes measured", () => {
  const one = new Histogram();
  one.record(1);
  const other = new Histogram();
  other.record(3);
  const both = new Histogram(one.counts);
  both.merge(other.counts);
  assert.equal(both.total, 2);
  assert.ok(Math.abs(both.quantile(1) - 3) < 0.05);
});

it("an empty histogram has no quantile", () => {
  assert.ok(Number.isNaN(new Histogram().quantile(0.5)));
});
