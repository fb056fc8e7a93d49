import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { WireTarget } from "./table-target.ts";

type EdmType = "String" | "Int32" | "Int64" | "Double" | "Boolean" | "DateTime" | "Guid" | "Binary";

/** A value of a type that JavaScript's own operators order as the service does. */
interface Typed {
  readonly type: EdmType;
  readonly order: string | number | bigint | boolean;
}

type Operator = "eq" | "ne" | "lt" | "le" | "gt" | "ge";
const OPERATORS: readonly Operator[] = ["eq", "ne", "lt", "le", "gt", "ge"];

const GUID = "c9da6455-213d-42c9-9a79-3e9149a57833";

/** One entity each: the stored value of `x`, and its JSON. */
const STORED: Readonly<Record<string, Typed & { readonly json: unknown }>> = {
  text: { type: "String", order: "b", json: "b" },
  emptyText: { type: "String", order: "", json: "" },
  textOfDigits: { type: "String", order: "5", json: "5" },
  int32: { type: "Int32", order: 5, json: 5 },
  lowest: { type: "Int32", order: -(2 ** 31), json: -(2 ** 31) },
  int64: { type: "Int64", order: 5n, json: "5" },
  beyondDouble: { type: "Int64", order: 2n ** 53n + 1n, json: "9007199254740993" },
  double: { type: "Double", order: 5.5, json: 5.5 },
  wholeDouble: { type: "Double", order: 5, json: 5 },
  notANumber: { type: "Double", order: Number.NaN, json: "NaN" },
  infinite: { type: "Double", order: Number.POSITIVE_INFINITY, json: "Infinity" },
  yes: { type: "Boolean", order: true, json: true },
  no: { type: "Boolean", order: false, json: false },
  tick: { type: "DateTime", order: "2020-01-01 1", json: "2020-01-01T00:00:00.0000001Z" },
  guid: { type: "Guid", order: GUID, json: GUID.toUpperCase() },
  bytes: { type: "Binary", order: "0102", json: "AQI=" },
  noBytes: { type: "Binary", order: "", json: "" },
};

const LITERALS: Readonly<Record<string, Typed>> = {
  "'b'": { type: "String", order: "b" },
  "''": { type: "String", order: "" },
  "5": { type: "Int32", order: 5 },
  "-2147483648": { type: "Int32", order: -(2 ** 31) },
  "5L": { type: "Int64", order: 5n },
  "9007199254740993L": { type: "Int64", order: 2n ** 53n + 1n },
  "9007199254740992L": { type: "Int64", order: 2n ** 53n },
  "5.0": { type: "Double", order: 5 },
  "1e308": { type: "Double", order: 1e308 },
  true: { type: "Boolean", order: true },
  false: { type: "Boolean", order: false },
  "datetime'2020-01-01T00:00:00.0000001Z'": { type: "DateTime", order: "2020-01-01 1" },
  "datetime'2020-01-01T00:00:00Z'": { type: "DateTime", order: "2020-01-01 0" },
  [`guid'${GUID.toUpperCase()}'`]: { type: "Guid", order: GUID },
  "X'0102'": { type: "Binary", order: "0102" },
  "X'01'": { type: "Binary", order: "01" },
  "binary'0103'": { type: "Binary", order: "0103" },
};

/** Properties of the first type are compared with literals of these types, by their numbers. */
const NUMERIC: Partial<Record<EdmType, readonly EdmType[]>> = {
  Int32: ["Int32"],
  Int64: ["Int32", "Int64"],
  Double: ["Int32", "Int64", "Double"],
};

/** The published comparison table: a value of another type is not equal, and less in either form. */
function holds({ type, order }: Typed, operator: Operator, literal: Typed): boolean {
  const comparable = type === literal.type || NUMERIC[type]?.includes(literal.type);
  if (!comparable) return operator === "ne" || operator === "lt" || operator === "le";
  const other = literal.order;
  switch (operator) {
    case "eq":
      return order <= other && order >= other;
    case "ne":
      return !(order <= other && order >= other);
    case "lt":
      return order < other;
    case "le":
      return order <= other;
    case "gt":
      return order > other;
    case "ge":
      return order >= other;
  }
}

describe("Comparing a property with the literal", () => {
  let target: WireTarget;
  let table: string;
  before(async () => {
    target = await WireTarget.open();
    table = await target.tableOf({ PartitionKey: "p", RowKey: "lacking" });
    for (const [RowKey, { type, json }] of Object.entries(STORED)) {
      const typed = { x: json, "x@odata.type": `Edm.${type}` };
      await target.insert(table, { PartitionKey: "p", RowKey, ...typed });
    }
  });
  after(() => target.close());

  async function found(filter: string): Promise<string[]> {
    const query = `$select=RowKey&$filter=${encodeURIComponent(filter)}`;
    const answer = await target.wire.send("GET", `/${table}()?${query}`);
    assert.equal(answer.status, 200, filter);
    const { value } = answer.json() as { value: { RowKey: string }[] };
    return value.map(({ RowKey }) => RowKey);
  }

  for (const [text, literal] of Object.entries(LITERALS)) {
    it(`${text} matches, with every operator, the entities that the published table lists`, async () => {
      for (const operator of OPERATORS) {
        const expected = Object.keys(STORED)
          .filter((name) => holds(STORED[name]!, operator, literal))
          .sort();
        assert.deepEqual(await found(`x ${operator} ${text}`), expected, operator);
      }
    });

    it(`${text} under not matches all other entities, including those that lack the property`, async () => {
      for (const operator of OPERATORS) {
        const expected = Object.keys(STORED)
          .filter((name) => !holds(STORED[name]!, operator, literal))
          .concat("lacking")
          .sort();
        assert.deepEqual(await found(`not (x ${operator} ${text})`), expected, operator);
      }
    });
  }
});
