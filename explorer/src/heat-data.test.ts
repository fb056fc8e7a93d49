import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { diagnose, drawHeat, exampleHistory, loadOf, rowsOf, warmthOf } from "./heat-data.ts";

describe("The data of a heat map", () => {
  const MINUTE = 60_000;
  const load = (name: string, count: number, begin: number, ms = 10_000) => ({
    ...{ begin, end: begin + ms },
    entities: [[name, count] as const],
  });

  it("adds what several processes and both kinds counted in the same slot, for one table", () => {
    const part = {
      read: [load("T/a", 100, 0), load("Other/a", 7, 10_000)],
      written: [load("T/a", 50, 0)],
      scanned: [load("T", 20, 0)],
    };
    const both = loadOf([part, part], "both", "T");
    assert.deepEqual([...both.load[0]!.entities], [["a", 300]]);
    assert.deepEqual([...both.scanned[0]!.entities], [["T", 40]]);
    assert.deepEqual([...loadOf([part], "written", "T").load[0]!.entities], [["a", 50]]);
    assert.deepEqual([...loadOf([part], "read", "").load[1]!.entities], [["Other/a", 7]]);
  });

  it("shows the worst moment of a column, not its average, and spreads an old slot over what it spans", () => {
    const slots = [load("a", 10, 0), load("a", 30_000, 20_000), load("b", 600, 3 * MINUTE, MINUTE)];
    const given = {
      load: slots.map((each) => ({ ...each, entities: new Map(each.entities) })),
      scanned: [],
    };
    const heat = drawHeat(given, { from: 0, to: 30 * MINUTE }, undefined);
    assert.deepEqual([heat.stepMs, heat.columns, heat.rows.length], [MINUTE, 30, 2]);
    assert.equal(heat.rates[0], 3000);
    assert.equal(heat.rates[heat.columns + 3], 10);
    const near = drawHeat(given, { from: 3 * MINUTE, to: 4 * MINUTE }, undefined);
    assert.deepEqual([near.stepMs, ...near.rates], [10_000, 10, 10, 10, 10, 10, 10]);
    const zoomed = drawHeat(given, { from: 0, to: 30 * MINUTE }, ["b", "b"]);
    assert.deepEqual(zoomed.rows, [{ first: "b", last: "b", names: 1 }]);
  });

  it("has a row for each of few partitions; of many, the busiest keep theirs, and rows stay in order and within bounds", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string(), { maxLength: 300 }), fc.nat(), (names, seed) => {
        const totals = new Map(names.map((name, i) => [name, ((i * 7919 + seed) % 1000) + 1]));
        const rows = rowsOf(totals, 30);
        assert.ok(rows.length <= 45, `${rows.length}`);
        assert.equal(
          rows.reduce((sum, row) => sum + row.names, 0),
          names.length,
        );
        for (const [i, row] of rows.entries()) {
          assert.ok(row.first <= row.last);
          if (i > 0) assert.ok(rows[i - 1]!.last < row.first);
        }
        const most = [...totals].sort((a, b) => b[1] - a[1])[0];
        if (most) assert.ok(rows.some((row) => row.first === most[0] && row.names === 1));
      }),
    );
  });

  it("names the partition that was above the cloud's limit and for how long, appended keys, and scans", () => {
    const history = exampleHistory(1_000_000_000);
    const given = loadOf([history], "both", "Orders");
    const { load: written } = loadOf([history], "written", "Orders");
    const time = { from: 0, to: 2_000_000_000 };
    const texts = diagnose(given, written, time, (name) => `“${name}”`).map(({ text }) => text);
    assert.match(
      texts[0]!,
      /^“region-07” had ≈ 2,600 entities\/s at .*for 70 s above the 2,000\/s/,
    );
    assert.match(texts[1]!, /end of the keys/);
    const calm = {
      load: [{ begin: 0, end: 10_000, entities: new Map([["p", 100]]) }],
      scanned: [],
    };
    assert.deepEqual(
      diagnose(calm, [], time, (name) => name).map(({ tone }) => tone),
      ["free"],
    );
    assert.deepEqual(diagnose({ load: [], scanned: calm.load }, [], time, String)[0]!.tone, "fair");
    assert.deepEqual(diagnose({ load: [], scanned: [] }, [], time, String), []);
  });

  it("is as warm as the ratio to the limit, from nothing to all", () => {
    assert.equal(warmthOf(0, 2000), 0);
    assert.equal(warmthOf(2000, 2000), 1);
    assert.equal(warmthOf(9000, 2000), 1);
    assert.ok(warmthOf(100, 2000) > 0.5);
  });
});
