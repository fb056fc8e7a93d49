import type { ComparisonOperator, FilterNode, Literal } from "@rowhouse/protocol/filter-tree";
import fc from "fast-check";
import type { PlainEntity } from "./test-reference.ts";

/**
 * Filters and entities for property tests, over so few keys, names and values that they often
 * coincide. The values include the interesting neighbors: adjacent ones, equal numbers of different
 * types, and empty ones.
 */
const KEYS = ["", "a", "a\u0001", "ab", "b", "B", "é", "\ud83d\ude00", "\uff5e"];
const NAMES = ["P", "Q", "Missing"];

const LITERALS: readonly Literal[] = [
  { type: "Edm.String", value: "" },
  { type: "Edm.String", value: "a" },
  { type: "Edm.String", value: "\ud83d\ude00" },
  { type: "Edm.String", value: "\uff5e" },
  { type: "Edm.String", value: '5"\\' },
  { type: "Edm.Int32", value: 5 },
  { type: "Edm.Int32", value: -1 },
  { type: "Edm.Int64", value: 5n },
  { type: "Edm.Int64", value: 9_007_199_254_740_993n },
  { type: "Edm.Double", value: 5 },
  { type: "Edm.Double", value: 5.5 },
  { type: "Edm.Double", value: 9_007_199_254_740_992 },
  { type: "Edm.Double", value: Number.NaN },
  { type: "Edm.Double", value: Number.NEGATIVE_INFINITY },
  { type: "Edm.Boolean", value: true },
  { type: "Edm.Boolean", value: false },
  { type: "Edm.DateTime", value: 5n },
  { type: "Edm.DateTime", value: 6n },
  { type: "Edm.Guid", value: "00000000-0000-0000-0000-000000000005" },
  { type: "Edm.Guid", value: "f0000000-0000-0000-0000-000000000000" },
  { type: "Edm.Binary", value: Uint8Array.of() },
  { type: "Edm.Binary", value: Uint8Array.of(5) },
  { type: "Edm.Binary", value: Uint8Array.of(5, 0) },
];

const operators = fc.constantFrom<ComparisonOperator>("eq", "ne", "lt", "le", "gt", "ge");
const keys = fc.constantFrom(...KEYS);
const literals = fc.constantFrom(...LITERALS);

const keyComparisons = fc
  .tuple(fc.constantFrom("PartitionKey", "RowKey"), operators, keys)
  .map(([property, operator, value]) =>
    comparison(property, operator, { type: "Edm.String", value }),
  );

const propertyComparisons = fc
  .tuple(fc.constantFrom(...NAMES), operators, literals)
  .map(([property, operator, literal]) => comparison(property, operator, literal));

const timestampComparisons = operators.map((operator) =>
  comparison("Timestamp", operator, { type: "Edm.DateTime", value: 5n }),
);

const bareProperties = fc
  .constantFrom(...NAMES)
  .map((property): FilterNode => ({ kind: "property", property }));

const constants = fc.boolean().map((value): FilterNode => ({ kind: "constant", value }));

export const randomFilters: fc.Arbitrary<FilterNode> = fc.letrec<{ filter: FilterNode }>((tie) => ({
  filter: fc.oneof(
    { depthSize: "medium", withCrossShrink: true },
    { weight: 6, arbitrary: keyComparisons },
    { weight: 4, arbitrary: propertyComparisons },
    { weight: 1, arbitrary: timestampComparisons },
    { weight: 1, arbitrary: bareProperties },
    { weight: 1, arbitrary: constants },
    { weight: 3, arbitrary: tie("filter").map((clause): FilterNode => ({ kind: "not", clause })) },
    {
      weight: 10,
      arbitrary: fc
        .tuple(
          fc.constantFrom("and" as const, "or" as const),
          fc.array(tie("filter"), { minLength: 2, maxLength: 6 }),
        )
        .map(([kind, clauses]): FilterNode => ({ kind, clauses })),
    },
  ),
})).filter;

export const randomKeys: fc.Arbitrary<string> = keys;

export const randomEntities: fc.Arbitrary<PlainEntity> = fc.record(
  {
    partitionKey: keys,
    rowKey: keys,
    timestampTicks: fc.constantFrom(4n, 5n, 6n),
    properties: fc.dictionary(fc.constantFrom("P", "Q", "R"), literals, { noNullPrototype: true }),
  },
  { noNullPrototype: true },
);

/** One entity for each pair of keys, in key order. */
export const everyKey: readonly PlainEntity[] = sorted(KEYS).flatMap((partitionKey) =>
  sorted(KEYS).map((rowKey) => ({ partitionKey, rowKey, timestampTicks: 5n, properties: {} })),
);

function sorted(texts: readonly string[]): string[] {
  return [...texts].sort((a, b) => (a < b ? -1 : 1));
}

function comparison(property: string, operator: ComparisonOperator, literal: Literal): FilterNode {
  return { kind: "comparison", property, operator, literal };
}
