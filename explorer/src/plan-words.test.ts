import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { planQuery } from "@rowhouse/server/query/planner";
import { readFilter } from "./filter-text.ts";
import { estimated, roundTrips, signOf, stepsOf } from "./plan-words.ts";
import { addressOf, readRoute } from "./route-text.ts";
import { bytes, percent, shortCount } from "./text.ts";

describe("A plan in words", () => {
  it("names what is read, and what is tested", () => {
    for (const [filter, word, steps] of [
      ["", "Table scan", ["read every partition from its first entity to its last"]],
      ["PartitionKey eq 'a' and RowKey eq 'b'", "Point query", ["look up (“a”, “b”)"]],
      [
        "PartitionKey eq 'a' and RowKey ge 'b' and RowKey lt 'c'",
        "Row range",
        ["in partition “a”, read rows from “b” up to “c”, which is not read"],
      ],
      [
        "PartitionKey eq 'a' and RowKey gt 'b'",
        "Row range",
        ["in partition “a”, read rows after “b” on"],
      ],
      [
        "PartitionKey eq 'a' and x eq 1",
        "Partition scan",
        ["read the whole partition “a”", "test each entity: x eq 1"],
      ],
      [
        "PartitionKey ge 'a' and PartitionKey le 'b'",
        "Partition range",
        ["read all rows of partitions from “a” to “b”"],
      ],
      [
        "PartitionKey eq 'a' and PartitionKey eq 'b'",
        "Nothing",
        ["No entity can match: nothing is read."],
      ],
      [
        "PartitionKey eq 'a' or PartitionKey eq 'b'",
        "2 partition scans",
        ["read the whole partition “a”", "read the whole partition “b”"],
      ],
    ] as const) {
      const plan = planQuery(readFilter(filter).tree);
      assert.equal(signOf(plan).word, word, filter);
      assert.deepEqual(stepsOf(plan).slice(0, steps.length), steps, filter);
    }
  });

  it("tells an estimate from a count", () => {
    assert.equal(estimated({ least: 5, likely: 5, most: 5 }), "5");
    assert.equal(estimated({ least: 0, likely: 1312, most: 2000 }), "≈ 1,312");
    assert.equal(estimated({ least: 70, likely: 80, most: undefined }), "at least 70");
    const plan = planQuery(undefined);
    assert.equal(roundTrips(plan, { least: 1, likely: 7528, most: 7528 }), 8);
    assert.equal(roundTrips(plan, { least: 0, likely: 0, most: 0 }), 1);
  });
});

describe("Numbers in the page", () => {
  it("are short, and do not round something to nothing", () => {
    assert.deepEqual([0, 999, 1200, 32_000].map(shortCount), ["0", "999", "1.2K", "32K"]);
    assert.deepEqual([0, 999, 2_200_000].map(bytes), ["0 B", "999 B", "2.2 MB"]);
    assert.deepEqual([0, 0.0001, 0.5, 0.9999, 1].map(percent), [
      "0 %",
      "< 1 %",
      "50 %",
      "> 99 %",
      "100 %",
    ]);
  });
});

describe("The address of a view", () => {
  it("holds the table, the filter and whether it is explained", () => {
    const route = { table: "Films", filter: "title eq 'A & B #1 ?'", explains: true };
    const read = (text: string) => {
      const { table, filter, explains } = readRoute(text);
      return { table, filter, explains };
    };
    assert.deepEqual(read(addressOf(route)), route);
    assert.deepEqual(read("#/"), { table: undefined, filter: "", explains: false });
    assert.deepEqual(read("#/t/%"), { table: undefined, filter: "", explains: false });
  });
});
