import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { printFilter } from "./filter-printer.ts";
import { LIMITS } from "./limits.ts";
import {
  parseEntityQueryOptions,
  parseEntitySelect,
  parseTableQueryOptions,
  type QueryPairs,
} from "./query-options.ts";

const NOTHING = { filter: undefined, select: undefined, top: undefined, from: undefined };

describe("parseEntityQueryOptions", () => {
  it("reads all options, anywhere among other parameters", () => {
    const { filter, select, top, from } = parseEntityQueryOptions([
      ["sv", "2019-02-02"],
      ["$filter", "Age gt 5"],
      ["timeout", "5"],
      ["$select", "Age"],
      ["$top", "10"],
      ["$format", "application/json"],
      ["NextPartitionKey", "1!4!cDE-"],
      ["NextRowKey", "1!4!cjI-"],
    ]);
    assert.equal(filter && printFilter(filter), "Age gt 5");
    assert.deepEqual(
      { select, top, from },
      {
        select: ["Age"],
        top: 10,
        from: { partitionKey: "p1", rowKey: "r2" },
      },
    );
  });

  it("treats an option without a value as absent", () => {
    for (const value of ["", " "]) {
      const pairs: QueryPairs = [
        ["$filter", value],
        ["$select", value],
        ["$top", value],
        ["$orderby", value],
      ];
      assert.deepEqual(parseEntityQueryOptions(pairs), NOTHING);
    }
    assert.deepEqual(parseEntityQueryOptions([]), NOTHING);
  });

  it("accepts $top from 0 to the page limit", () => {
    for (const top of [0, 1, LIMITS.pageEntitiesMax]) {
      assert.equal(parseEntityQueryOptions([["$top", String(top)]]).top, top);
    }
    for (const top of [
      String(LIMITS.pageEntitiesMax + 1),
      "-1",
      "x",
      "1.0",
      "1e2",
      " 5",
      "٣",
      "9".repeat(400),
    ]) {
      refuses([["$top", top]]);
    }
  });

  it("selects names in the given order, each once", () => {
    assert.deepEqual(select("b, a ,b,名"), ["b", "a", "名"]);
  });

  it("selects everything for *", () => {
    assert.equal(select("*"), undefined);
    assert.equal(select("a, *"), undefined);
  });

  it("refuses names that no property can have", () => {
    for (const text of ["a,", ",a", "a b", "1a", "a-b", "odata.etag", "a/b", "a'"]) {
      refuses([["$select", text]]);
    }
  });

  it("accepts up to the maximum number of names", () => {
    const names = Array.from({ length: LIMITS.selectNamesMax + 1 }, (_, index) => `p${index}`);
    assert.equal(select(names.slice(1).join(","))?.length, LIMITS.selectNamesMax);
    refuses([["$select", names.join(",")]]);
  });

  it("refuses other OData options with NotImplemented, and unknown ones with InvalidInput", () => {
    for (const name of ["$orderby", "$skip", "$inlinecount", "$count", "$expand", "$skiptoken"]) {
      refuses([[name, "1"]], "NotImplemented");
    }
    refuses([["$foo", "1"]]);
    refuses([["$Filter", "A"]]);
  });

  it("refuses an option sent twice", () => {
    refuses([
      ["$filter", "A"],
      ["$filter", "B"],
    ]);
  });

  it("resumes at the start of a partition if the next row key is missing or empty", () => {
    const start: QueryPairs = [["NextPartitionKey", "1!4!cDE-"]];
    assert.deepEqual(parseEntityQueryOptions(start).from, {
      partitionKey: "p1",
      rowKey: undefined,
    });
    const { from } = parseEntityQueryOptions([...start, ["NextRowKey", ""]]);
    assert.deepEqual(from, { partitionKey: "p1", rowKey: "" });
  });

  it("refuses a next row key without a partition key, and malformed tokens", () => {
    refuses([["NextRowKey", "1!4!cjI-"]]);
    refuses([["NextPartitionKey", "p1"]]);
  });
});

describe("parseEntitySelect", () => {
  it("reads only $select", () => {
    const pairs: QueryPairs = [
      ["$filter", "not even a filter"],
      ["$select", "a,b"],
    ];
    assert.deepEqual(parseEntitySelect(pairs), ["a", "b"]);
  });
});

describe("parseTableQueryOptions", () => {
  it("reads a filter on the name, a page size and the next table", () => {
    const { filter, top, from } = parseTableQueryOptions([
      ["$filter", "TableName ge 'a'"],
      ["$top", "2"],
      ["NextTableName", "1!8!cGVvcGxl"],
    ]);
    assert.equal(filter && printFilter(filter), "TableName ge 'a'");
    assert.deepEqual({ top, from }, { top: 2, from: "people" });
  });

  it("treats an empty NextTableName as the first page", () => {
    assert.equal(parseTableQueryOptions([["NextTableName", ""]]).from, undefined);
  });

  it("refuses to select an invalid name", () => {
    assert.ok(parseTableQueryOptions([["$select", "TableName"]]));
    assert.throws(() => parseTableQueryOptions([["$select", "Table-Name"]]), {
      code: "InvalidInput",
    });
  });
});

function select(text: string): readonly string[] | undefined {
  return parseEntityQueryOptions([["$select", text]]).select;
}

function refuses(pairs: QueryPairs, code = "InvalidInput"): void {
  assert.throws(() => parseEntityQueryOptions(pairs), { code });
}
