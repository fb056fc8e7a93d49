import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { FilterNode, OrNode } from "@rowhouse/protocol/filter-tree";
import { LIMITS } from "@rowhouse/protocol/limits";
import fc from "fast-check";
import type { SasKeyRange } from "../wire/identity.ts";
import { explain } from "./explain.ts";
import { isBefore, type KeyPosition, type KeyRead, type Plan } from "./plan.ts";
import { planQuery, resumePlan } from "./planner.ts";
import { everyKey, randomEntities, randomFilters, randomKeys } from "./test-random-filters.ts";
import { evaluate, type PlainEntity } from "./test-reference.ts";

describe("planQuery", () => {
  it("reads one entity when both keys are known", () => {
    check("PartitionKey eq 'a' and RowKey eq 'b'", "point query a/b");
    check("'b' eq RowKey and ('a' eq PartitionKey)", "point query a/b");
    check("PartitionKey eq '' and RowKey eq ''", "point query ''/''");
    check("PartitionKey eq 'a' and RowKey ge 'b' and RowKey le 'b'", "point query a/b");
    check(
      "PartitionKey eq 'a' and Price gt 5 and RowKey eq 'b'",
      "point query a/b where Price gt 5",
    );
  });

  it("reads a range of rows in one partition", () => {
    check("PartitionKey eq 'a' and RowKey ge 'x' and RowKey lt 'y'", "range query a/[x..y)");
    check("RowKey le 'y' and RowKey gt 'x' and PartitionKey eq 'a'", "range query a/(x..y]");
    check("PartitionKey eq 'a' and RowKey lt 'y'", "range query a/(..y)");
    check("PartitionKey eq 'a' and RowKey gt 'x'", "range query a/(x..)");
    check("PartitionKey eq 'a' and RowKey ne 'x'", "2 range queries a/(..x), a/(x..)");
  });

  it("reads one partition when only the partition key is known", () => {
    check("PartitionKey eq 'a'", "partition scan a");
    check("PartitionKey eq 'a' and RowKey ge ''", "partition scan a");
    check("PartitionKey ge 'a' and PartitionKey le 'a'", "partition scan a");
    check("PartitionKey eq 'a' and Price gt 5", "partition scan a where Price gt 5");
  });

  it("reads a range of partitions", () => {
    check("PartitionKey ge 'a' and PartitionKey lt 'b'", "partition range [a..b)");
    check("PartitionKey gt 'a'", "partition range (a..)");
    check("PartitionKey lt 'b' and A", "partition range (..b) where A");
    check("PartitionKey ne 'a'", "2 partition ranges (..a), (a..)");
    check(
      "PartitionKey ge 'a' and PartitionKey lt 'b' and RowKey eq 'x'",
      "partition range [a..b) where RowKey eq 'x'",
    );
  });

  it("reports the row keys that can match when several partitions are read", () => {
    const rowKeysOf = (filter: string) => planQuery(parseFilter(filter)).rowKeys;
    assert.deepEqual(rowKeysOf("RowKey eq 'x'"), ["x", "x\0"]);
    assert.deepEqual(rowKeysOf("RowKey ge 'x' and RowKey lt 'y' and Price gt 5"), ["x", "y"]);
    assert.deepEqual(rowKeysOf("PartitionKey gt 'a' and RowKey gt 'x'"), ["x\0"]);
    assert.deepEqual(rowKeysOf("RowKey eq 'y' or RowKey le 'b'"), ["", "b\0", "y", "y\0"]);
    assert.deepEqual(
      rowKeysOf("PartitionKey lt 'b' and RowKey eq 'x' or PartitionKey gt 'c' and RowKey ge 'y'"),
      ["x", "x\0", "y"],
    );
    for (const filter of [
      "RowKey eq 'x' or Price gt 5",
      "PartitionKey lt 'b' and RowKey eq 'x' or PartitionKey gt 'c' and Price gt 5",
      "PartitionKey eq 'a' and RowKey eq 'x' or PartitionKey gt 'b'",
      "PartitionKey eq 'a' and RowKey ge 'x' and Price gt 5",
      "Price gt 5",
    ]) {
      assert.equal(rowKeysOf(filter), undefined, filter);
    }
    assert.deepEqual(rowKeysOf(anyOf("RowKey", 128))?.length, 256);
    assert.deepEqual(rowKeysOf(anyOf("RowKey", 129)), ["k0000", "k0128\0"]);
  });

  it("joins adjacent ranges", () => {
    check(
      "PartitionKey eq 'a' and RowKey ge 'x' or PartitionKey gt 'a'",
      "partition range [a/x..)",
    );
    check("PartitionKey lt 'b' or PartitionKey ge 'b'", "table scan");
    check(
      "PartitionKey eq 'a' and RowKey lt 'x' or PartitionKey eq 'a' and RowKey ge 'x'",
      "partition scan a",
    );
  });

  it("scans the table when no partition key restricts the query", () => {
    check("RowKey eq 'x'", "table scan where RowKey eq 'x'");
    check("Price gt 5", "table scan where Price gt 5");
    check(
      "PartitionKey eq 'a' or Price gt 5",
      "table scan where PartitionKey eq 'a' or Price gt 5",
    );
    check(
      "Timestamp gt datetime'2020-01-01'",
      "table scan where Timestamp gt datetime'2020-01-01T00:00:00Z'",
    );
    check("PartitionKey ge ''", "table scan");
    assert.equal(explain(planQuery(undefined)), "table scan");
  });

  it("turns an or over keys into separate reads, in key order, without repeats", () => {
    check(
      "PartitionKey eq 'a' and (RowKey eq 'c' or RowKey eq 'b' or RowKey eq 'c')",
      "2 point queries a/b, a/c",
    );
    check(
      "(PartitionKey eq 'b' or PartitionKey eq 'a') and (RowKey eq 'y' or RowKey eq 'x')",
      "4 point queries a/x, a/y, b/x, b/y",
    );
    check(
      "PartitionKey eq 'b' or PartitionKey eq 'a' and RowKey eq 'x' or PartitionKey eq 'c' and RowKey gt 'z'",
      "point query a/x + range query c/(z..) + partition scan b",
    );
    check(
      "(PartitionKey eq 'a' and RowKey eq 'b') or (PartitionKey eq 'c' and Price gt 5)",
      "point query a/b + partition scan c where PartitionKey eq 'a' and RowKey eq 'b' or PartitionKey eq 'c' and Price gt 5",
    );
  });

  it("leaves out of the residual whatever the keys read guarantee, at any depth", () => {
    check(
      "(PartitionKey eq 'a' and Price gt 5) or (PartitionKey eq 'a' and Price lt 2)",
      "partition scan a where Price gt 5 or Price lt 2",
    );
    check("PartitionKey eq 'a' and (PartitionKey eq 'a' or Price gt 5)", "partition scan a");
    check(
      "PartitionKey eq 'a' and (PartitionKey eq 'b' or Price gt 5)",
      "partition scan a where Price gt 5",
    );
    check(
      "PartitionKey eq 'a' and not (RowKey eq 'x' and Price gt 5)",
      "partition scan a where RowKey ne 'x' or not (Price gt 5)",
    );
  });

  it("folds constants", () => {
    check("true and PartitionKey eq 'a' and 1 lt 2", "partition scan a");
    check("false or PartitionKey eq 'a'", "partition scan a");
    check("true", "table scan");
    check("A or true", "table scan");
    check("not (false and A)", "table scan");
  });

  it("reads nothing for a contradiction", () => {
    check("PartitionKey eq 'a' and PartitionKey eq 'b'", "nothing");
    check("PartitionKey eq 'a' and RowKey lt 'x' and RowKey ge 'x' and A", "nothing");
    check("RowKey lt ''", "nothing");
    check("A and false", "nothing");
    check("not (PartitionKey ge '')", "nothing");
  });

  it("applies not to comparisons of keys, and keeps it where a property may be missing", () => {
    check("not (PartitionKey ne 'a')", "partition scan a");
    check("not (PartitionKey ne 'a' or Price gt 5)", "partition scan a where not (Price gt 5)");
    check("not (PartitionKey lt 'a' or not (PartitionKey lt 'b'))", "partition range [a..b)");
    check(
      "not not (PartitionKey eq 'a' and not (X ne 'a'))",
      "partition scan a where not (X ne 'a')",
    );
  });

  it("makes the same plan for any order and nesting of clauses", () => {
    const clauses = ["PartitionKey eq 'a'", "RowKey ge 'x'", "RowKey lt 'y'", "Price gt 5"];
    fc.assert(
      fc.property(fc.shuffledSubarray(clauses, { minLength: 4 }), ([a, b, c, d]) => {
        check(`(${a} and ${b}) and (${c} and (${d}))`, "range query a/[x..y) where Price gt 5");
        check(
          `not (not (${a}) or not (${b} and (${c})) or not (${d}))`,
          "range query a/[x..y) where Price gt 5",
        );
      }),
    );
  });

  it("agrees with the reference: reads every match once, and filters out the rest", () => {
    fc.assert(
      fc.property(randomFilters, fc.array(randomEntities), (filter, entities) => {
        const all = [...everyKey, ...entities];
        checkPlan(planQuery(filter), all, (entity) => evaluate(filter, entity));
      }),
      { numRuns: 1000 },
    );
  });

  it("needs no residual for a filter over keys alone in one partition", () => {
    const inPartition: FilterNode = parseFilter("PartitionKey eq 'ab'");
    fc.assert(
      fc.property(randomFilters, (filter) => {
        if (!isOverKeys(filter)) return;
        const plan = planQuery({ kind: "and", clauses: [filter, inPartition] });
        assert.equal(plan.residual, undefined);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("planQuery with many keys", () => {
  it("plans thousands of row keys as point queries", () => {
    const plan = planQuery(parseFilter(`PartitionKey eq 'p' and (${anyOf("RowKey", 3000)})`));
    assert.equal(plan.class, "point query");
    assert.equal(plan.reads.length, 3000);
    assert.equal(plan.residual, undefined);
  });

  it("plans thousands of key pairs as point queries", () => {
    const pairs = names(1500).map((key) => `PartitionKey eq '${key}' and RowKey eq 'r'`);
    const plan = planQuery(parseFilter(pairs.join(" or ")));
    assert.deepEqual(
      [plan.class, plan.reads.length, plan.residual],
      ["point query", 1500, undefined],
    );
  });

  it("reads one range per partition when point queries would exceed the limit of reads", () => {
    const rows = 64;
    const fitting = LIMITS.planReadsMax / rows;
    const plan = planQuery(parseFilter(product(fitting, rows)));
    assert.deepEqual(
      [plan.class, plan.reads.length, plan.residual],
      ["point query", 4096, undefined],
    );

    const wide = planQuery(parseFilter(product(fitting + 1, rows)));
    assert.deepEqual([wide.class, wide.reads.length], ["range query", fitting + 1]);
    assert.equal(
      explain({ ...wide, reads: wide.reads.slice(0, 1), residual: undefined }),
      "range query k0000/[k0000..k0063]",
    );
    assert.equal(wide.residual && printFilter(wide.residual), anyOf("RowKey", rows));
  });

  it("reads one range when the partitions exceed the limit of reads", () => {
    const { clauses } = anyIn("PartitionKey", names(LIMITS.planReadsMax + 1));
    const plan = planQuery({ kind: "or", clauses });
    assert.equal(explain({ ...plan, residual: undefined }), "partition range [k0000..k4096]");
    assert.ok(plan.residual?.kind === "or" && plan.residual.clauses.length === clauses.length);
    assert.equal(
      planQuery({ kind: "or", clauses: clauses.slice(1) }).reads.length,
      LIMITS.planReadsMax,
    );
  });

  it("reads more than necessary, but still correctly, when a filter is too costly to plan", () => {
    const partitions = names(100);
    const rows = names(2000);
    const filter = tiringFilter(partitions, rows);
    const plan = planQuery(filter);
    assert.equal(plan.class, "partition scan");
    const entities = partitions
      .slice(0, 10)
      .flatMap((partitionKey) =>
        rows
          .slice(0, 20)
          .map((rowKey) => ({ partitionKey, rowKey, timestampTicks: 0n, properties: {} })),
      );
    checkPlan(plan, entities, (entity) => evaluate(filter, entity));
  });
});

describe("planQuery within the bounds of a SAS", () => {
  it("limits the reads to the bounds, which are inclusive", () => {
    checkBounds({ startPartitionKey: "a" }, "partition range [a..)");
    checkBounds({ endPartitionKey: "b" }, "partition range (..b]");
    checkBounds({ startPartitionKey: "a", endPartitionKey: "a" }, "partition scan a");
    checkBounds({ startPartitionKey: "a", startRowKey: "1" }, "partition range [a/1..)");
    checkBounds(
      { startPartitionKey: "a", startRowKey: "1", endPartitionKey: "b", endRowKey: "9" },
      "partition range [a/1..b/9]",
    );
    checkBounds(
      { startPartitionKey: "a", startRowKey: "1", endPartitionKey: "a", endRowKey: "9" },
      "range query a/[1..9]",
    );
    checkBounds(
      { startPartitionKey: "a", startRowKey: "1", endPartitionKey: "a", endRowKey: "1" },
      "point query a/1",
    );
    checkBounds({ startPartitionKey: "b", endPartitionKey: "a" }, "nothing");
    checkBounds({}, "table scan");
  });

  it("combines the bounds with the filter", () => {
    const bounds = { startPartitionKey: "a", endPartitionKey: "b", endRowKey: "9" };
    checkBounds(
      bounds,
      "2 point queries a/z, b/1",
      "(PartitionKey eq 'a' or PartitionKey eq 'b' or PartitionKey eq 'c') and (RowKey eq '1' and PartitionKey ge 'b' or RowKey eq 'z')",
    );
    checkBounds(bounds, "nothing", "PartitionKey eq 'c'");
    checkBounds(bounds, "partition range [a..b/9] where X", "PartitionKey ge 'a' and X");
  });

  it("limits reads to the bounds also where the planner had to widen them", () => {
    const bounds = {
      startPartitionKey: "k0000",
      startRowKey: "5",
      endPartitionKey: "k9999",
      endRowKey: "7",
    };
    const many = anyIn("PartitionKey", names(10_000));
    assert.equal(
      explain({ ...planQuery(many, bounds), residual: undefined }),
      "partition range [k0000/5..k9999/7]",
    );
    const one = { ...bounds, endPartitionKey: "k0000" };
    checkBounds(one, "range query k0000/[5..7] where A", "A");
    const tiring = tiringFilter(names(100), names(2000));
    for (const rows of [one, { ...one, startRowKey: "k0300", endRowKey: "k0400" }]) {
      for (const read of planQuery(tiring, rows).reads) {
        assert.ok(!isBefore(startOf(read), { partitionKey: "k0000", rowKey: rows.startRowKey }));
        const end = { partitionKey: "k0000", rowKey: `${rows.endRowKey}\0\0` };
        assert.ok(isBefore(endOf(read) ?? end, end));
      }
    }
  });

  it("never reads outside the bounds, for any filter", () => {
    const maybe = fc.option(randomKeys, { nil: undefined });
    fc.assert(
      fc.property(
        randomFilters,
        maybe,
        maybe,
        maybe,
        maybe,
        fc.array(randomEntities),
        (filter, startPartitionKey, startRow, endPartitionKey, endRow, entities) => {
          const bounds: SasKeyRange = {
            startPartitionKey,
            startRowKey: startPartitionKey === undefined ? undefined : startRow,
            endPartitionKey,
            endRowKey: endPartitionKey === undefined ? undefined : endRow,
          };
          const plan = planQuery(filter, bounds);
          const all = [...everyKey, ...entities];
          checkPlan(plan, all, (entity) => isWithin(bounds, entity) && evaluate(filter, entity));
          for (const entity of all) {
            if (plan.reads.some((read) => covers(read, entity)))
              assert.ok(isWithin(bounds, entity));
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("resumePlan", () => {
  it("starts at the position, inclusively", () => {
    checkResumed("PartitionKey eq 'a'", "a", "x", "range query a/[x..)");
    checkResumed(
      "PartitionKey eq 'a' and RowKey lt 'y' and A",
      "a",
      "x",
      "range query a/[x..y) where A",
    );
    checkResumed("true", "b", "x", "partition range [b/x..)");
    checkResumed(
      "PartitionKey eq 'a' and (RowKey eq '1' or RowKey eq '2' or RowKey eq '3')",
      "a",
      "2",
      "2 point queries a/2, a/3",
    );
  });

  it("starts at the first row of the partition when the position has no row key", () => {
    checkResumed("PartitionKey le 'b'", "b", undefined, "partition scan b");
    checkResumed("PartitionKey eq 'b'", "b", undefined, "partition scan b");
  });

  it("reads everything from a position before the plan, and nothing from one after it", () => {
    checkResumed("PartitionKey eq 'b'", "a", "x", "partition scan b");
    checkResumed("PartitionKey eq 'b'", "c", undefined, "nothing");
    checkResumed("PartitionKey eq 'b' and RowKey eq '1'", "b", "1\0", "nothing");
  });

  it("reads exactly what the plan reads from the position on", () => {
    fc.assert(
      fc.property(randomFilters, randomKeys, randomKeys, (filter, partitionKey, rowKey) => {
        const position = { partitionKey, rowKey };
        const resumed = resumePlan(planQuery(filter), position);
        checkPlan(
          resumed,
          everyKey,
          (entity) => !isBefore(entity, position) && evaluate(filter, entity),
        );
        for (const read of resumed.reads) assert.ok(!isBefore(startOf(read), position));
      }),
      { numRuns: 1000 },
    );
  });
});

/** `expected` is the plan as printed by `explain`. */
function check(filter: string, expected: string): void {
  assert.equal(explain(planQuery(parseFilter(filter))), expected);
}

function checkBounds(bounds: Partial<SasKeyRange>, expected: string, filter = "true"): void {
  const none = {
    startPartitionKey: undefined,
    startRowKey: undefined,
    endPartitionKey: undefined,
    endRowKey: undefined,
  };
  assert.equal(explain(planQuery(parseFilter(filter), { ...none, ...bounds })), expected);
}

function checkResumed(
  filter: string,
  partitionKey: string,
  rowKey: string | undefined,
  expected: string,
): void {
  assert.equal(
    explain(resumePlan(planQuery(parseFilter(filter)), { partitionKey, rowKey })),
    expected,
  );
}

/** The reads are ordered and disjoint and, with the residual, find exactly the matching entities. */
function checkPlan(
  plan: Plan,
  entities: readonly PlainEntity[],
  matches: (entity: PlainEntity) => boolean,
): void {
  plan.reads.forEach((read, index) => {
    const next = plan.reads[index + 1];
    assert.ok(isBefore(startOf(read), endOf(read)), "A read is not empty.");
    const end = endOf(read);
    if (next !== undefined)
      assert.ok(end !== undefined && isBefore(end, startOf(next)), "Reads are apart.");
  });
  for (const entity of entities) {
    const read = plan.reads.filter((one) => covers(one, entity)).length;
    assert.ok(read <= 1, "An entity is read once.");
    if (matches(entity)) {
      assert.ok(isAmong(plan.rowKeys, entity.rowKey), `${entity.rowKey} among the row keys.`);
    }
    const found = read === 1 && (plan.residual === undefined || evaluate(plan.residual, entity));
    assert.equal(
      found,
      matches(entity),
      `${entity.partitionKey}/${entity.rowKey} in ${explain(plan)}`,
    );
  }
}

function isAmong(rowKeys: Plan["rowKeys"], rowKey: string): boolean {
  return rowKeys === undefined || rowKeys.filter((bound) => bound <= rowKey).length % 2 === 1;
}

function covers(read: KeyRead, entity: KeyPosition): boolean {
  return !isBefore(entity, startOf(read)) && isBefore(entity, endOf(read));
}

function startOf(read: KeyRead): KeyPosition {
  return read.kind === "range"
    ? read.start
    : { partitionKey: read.partitionKey, rowKey: read.rowKey };
}

function endOf(read: KeyRead): KeyPosition | undefined {
  return read.kind === "range"
    ? read.end
    : { partitionKey: read.partitionKey, rowKey: `${read.rowKey}\0` };
}

/** The definition of key ranges in the specification, word for word. */
function isWithin(bounds: SasKeyRange, { partitionKey, rowKey }: KeyPosition): boolean {
  const { startPartitionKey: spk, startRowKey: srk, endPartitionKey: epk, endRowKey: erk } = bounds;
  if (spk !== undefined && partitionKey < spk) return false;
  if (srk !== undefined && partitionKey === spk && rowKey < srk) return false;
  if (epk !== undefined && partitionKey > epk) return false;
  return !(erk !== undefined && partitionKey === epk && rowKey > erk);
}

function isOverKeys(filter: FilterNode): boolean {
  switch (filter.kind) {
    case "constant":
      return true;
    case "not":
      return isOverKeys(filter.clause);
    case "and":
    case "or":
      return filter.clauses.every(isOverKeys);
    case "property":
      return false;
    case "comparison":
      return filter.property.endsWith("Key");
  }
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `k${String(index).padStart(4, "0")}`);
}

function anyOf(property: string, count: number): string {
  return names(count)
    .map((key) => `${property} eq '${key}'`)
    .join(" or ");
}

function product(partitions: number, rows: number): string {
  return `(${anyOf("PartitionKey", partitions)}) and (${anyOf("RowKey", rows)})`;
}

/** Each group names different partitions and row keys, so no two partitions share their row keys. */
function tiringFilter(partitions: readonly string[], rows: readonly string[]): FilterNode {
  const clauses = partitions.map((_, group): FilterNode => {
    const some = partitions.filter((_, index) => ((index * 7919 + group * 104_729) >> 3) % 2 === 0);
    const others = rows.filter((_, index) => index % partitions.length === group);
    return { kind: "and", clauses: [anyIn("PartitionKey", some), anyIn("RowKey", others)] };
  });
  return { kind: "or", clauses };
}

function anyIn(property: string, keys: readonly string[]): OrNode {
  return {
    kind: "or",
    clauses: keys.map((value) => ({
      kind: "comparison",
      property,
      operator: "eq",
      literal: { type: "Edm.String", value },
    })),
  };
}
