import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import fc from "fast-check";
import { isBefore, type KeyPosition } from "./plan.ts";
import { planQuery } from "./planner.ts";
import {
  estimateReads,
  placesOf,
  SKETCH_STEPS_MAX,
  SketchBuilder,
  type TableSketch,
} from "./table-sketch.ts";

describe("A sketch of a table", () => {
  it("estimates whole partitions exactly while there are few", () => {
    const sketch = sketchOf(keys(40, (i) => 1 + 13 * i));
    for (let i = 0; i < 40; i++) {
      const plan = planQuery(parseFilter(`PartitionKey eq '${name(i)}' and x eq 1`));
      const count = 1 + 13 * i;
      assert.deepEqual(estimateReads(plan, sketch), { least: count, likely: count, most: count });
    }
    assert.deepEqual(sketch.largest, { partitionKey: name(39), entities: 1 + 13 * 39 });
  });

  it("bounds what any filter reads, in bounded memory, however the keys are spread", () => {
    const filters = fc.constantFrom(
      "PartitionKey ge '0005'",
      "PartitionKey lt '0020' and PartitionKey gt '0003'",
      "PartitionKey eq '0007' and RowKey ge '000400'",
      "PartitionKey eq '0007' and RowKey lt '000017'",
      "PartitionKey eq '0001' or PartitionKey eq '0009'",
      "PartitionKey eq '0002' and RowKey eq '000001'",
      "x eq 1",
      "PartitionKey eq 'nowhere'",
    );
    const sizes = fc.array(fc.nat(700), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(sizes, filters, fc.option(fc.nat(3000)), (counts, filter, limit) => {
        const all = keys(counts.length, (i) => counts[i]!);
        const walked = all.slice(0, limit ?? all.length);
        const sketch = sketchOf(walked, walked.length === all.length);
        assert.ok(sketch.steps.length <= SKETCH_STEPS_MAX);
        const plan = planQuery(parseFilter(filter));
        const { least, likely, most = Number.POSITIVE_INFINITY } = estimateReads(plan, sketch);
        const truth = all.filter((key) => plan.reads.some((read) => holds(read, key))).length;
        const isPoint = plan.class === "point query";
        assert.ok(isPoint || (least <= truth && truth <= most), `${least} ${truth} ${most}`);
        assert.ok(least <= likely && likely <= most);
      }),
    );
  });

  it("merges steps when there are too many, and still counts everything", () => {
    const sketch = sketchOf(keys(5000, () => 3));
    assert.ok(sketch.steps.length <= SKETCH_STEPS_MAX);
    assert.deepEqual([sketch.entities, sketch.partitions, sketch.bytes], [15_000, 5000, 150_000]);
    const plan = planQuery(parseFilter("PartitionKey ge '2500'"));
    const { least, most } = estimateReads(plan, sketch);
    assert.ok(least <= 7500 && 7500 <= most! && most! - least <= 200, `${least} ${most}`);
  });

  it("of nothing estimates nothing", () => {
    const sketch = sketchOf([]);
    assert.deepEqual(estimateReads(planQuery(undefined), sketch), { least: 0, likely: 0, most: 0 });
    assert.deepEqual(placesOf(planQuery(undefined), sketch), [{ from: 0, to: 1 }]);
  });

  it("places reads among the entities", () => {
    const sketch = sketchOf(keys(4, () => 16));
    const places = placesOf(planQuery(parseFilter("PartitionKey eq '0001' and x eq 1")), sketch);
    assert.deepEqual(places, [{ from: 0.25, to: 0.5 }]);
  });
});

function keys(partitions: number, countOf: (i: number) => number): KeyPosition[] {
  return Array.from({ length: partitions }, (_, i) =>
    Array.from({ length: countOf(i) }, (_, j) => ({
      partitionKey: name(i),
      rowKey: String(j).padStart(6, "0"),
    })),
  ).flat();
}

function name(i: number): string {
  return String(i).padStart(4, "0");
}

function sketchOf(positions: readonly KeyPosition[], complete = true): TableSketch {
  const builder = new SketchBuilder();
  let before: string | undefined;
  for (const position of positions) {
    builder.add(position.partitionKey !== before, () => position, 10);
    before = position.partitionKey;
  }
  return builder.finish(0, complete);
}

function holds(read: ReturnType<typeof planQuery>["reads"][number], key: KeyPosition): boolean {
  if (read.kind === "point")
    return read.partitionKey === key.partitionKey && read.rowKey === key.rowKey;
  return !isBefore(key, read.start) && isBefore(key, read.end);
}
