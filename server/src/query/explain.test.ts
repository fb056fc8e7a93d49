import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import fc from "fast-check";
import { explain } from "./explain.ts";
import { planQuery } from "./planner.ts";
import { randomFilters } from "./test-random-filters.ts";

describe("explain", () => {
  it("prints plain keys as they are and quotes all others", () => {
    checkKey("2024-01-31T10:00:00.000Z", "2024-01-31T10:00:00.000Z");
    checkKey("user@example.com|7_~", "user@example.com|7_~");
    checkKey("", "''");
    checkKey("O'Brien", "'O''Brien'");
    checkKey("a b", "'a b'");
    checkKey("a..b", "'a..b'");
    checkKey("a.", "'a.'");
    checkKey("a,b", "'a,b'");
    checkKey("a+b", "'a+b'");
    checkKey("[a)", "'[a)'");
    checkKey("a/b", "'a/b'");
  });

  it("prints characters other than printable ASCII as escaped code units", () => {
    checkKey("é", "'\\u00e9'");
    checkKey("😀", "'\\ud83d\\ude00'");
    checkKey("a\\u0041", "'a\\\\u0041'");
    checkKey("a\r\nb", "'a\\u000d\\u000ab'");
    check("Größe eq 'ü'", "table scan where Gr\\u00f6\\u00dfe eq '\\u00fc'");
  });

  it("shows whether each end is open, closed or unbounded", () => {
    check("PartitionKey gt '' and PartitionKey le 'b c'", "partition range (''..'b c']");
    check("PartitionKey eq 'a' and RowKey gt ''", "range query a/(''..)");
    check(
      "PartitionKey eq 'a' and RowKey gt '1' or PartitionKey gt 'a' and PartitionKey lt 'c' or PartitionKey eq 'c' and RowKey lt '9'",
      "partition range (a/1..c/9)",
    );
  });

  it("names each class once with its count, cheapest first", () => {
    check(
      "PartitionKey lt 'a' or PartitionKey eq 'b' or PartitionKey eq 'c' and RowKey eq '1' or PartitionKey eq 'd' and RowKey eq '2'",
      "2 point queries c/1, d/2 + partition scan b + partition range (..a)",
    );
  });

  it("shows the first eight of many reads", () => {
    const keys = Array.from({ length: 1000 }, (_, index) => `RowKey eq '${index + 1000}'`);
    check(
      `PartitionKey eq 'a' and (${keys.join(" or ")})`,
      "1000 point queries a/1000, a/1001, a/1002, a/1003, a/1004, a/1005, a/1006, a/1007, and 992 more",
    );
  });

  it("shows all of eight reads", () => {
    const keys = Array.from({ length: 8 }, (_, index) => `PartitionKey eq '${index}'`);
    check(keys.join(" or "), "8 partition scans 0, 1, 2, 3, 4, 5, 6, 7");
  });

  it("truncates long keys and filters", () => {
    check(`PartitionKey eq '${"k".repeat(101)}'`, `partition scan ${"k".repeat(100)}...`);
    const text = explain(planQuery(parseFilter(`A eq '${"v".repeat(5000)}'`)));
    assert.equal(text, `table scan where A eq '${"v".repeat(994)}...`);
  });

  it("is one line of printable ASCII for any plan", () => {
    fc.assert(
      fc.property(randomFilters, (filter: FilterNode) => {
        assert.match(explain(planQuery(filter)), /^[ -~]+$/);
      }),
    );
  });
});

function check(filter: string, expected: string): void {
  assert.equal(explain(planQuery(parseFilter(filter))), expected);
}

function checkKey(key: string, expected: string): void {
  check(`PartitionKey eq '${key.replaceAll("'", "''")}'`, `partition scan ${expected}`);
}
