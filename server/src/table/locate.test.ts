import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import fc from "fast-check";
import { locateTable } from "./locate.ts";

describe("The path of a table request", () => {
  it("addresses the service, the tables, one table, a table's entities, one entity, batch and metadata", () => {
    check("", "service");
    check("/", "service");
    check("/Tables", "tables");
    check("/tables()", "tables");
    check("/Tables('People')", "table People");
    check("/People", "entities People");
    check("/People()", "entities People");
    check("/People(PartitionKey='p',RowKey='r')", "entity People p|r");
    check("/$batch", "batch");
    check("/$metadata", "metadata");
  });

  it("yields the same keys whether or not the client escapes optional characters", () => {
    check(
      "/People(PartitionKey='O''Brien',RowKey='a%20b%20%C3%A9%2525')",
      "entity People O'Brien|a b é%25",
    );
    check(
      "/People%28PartitionKey%3D%27O%27%27Brien%27%2CRowKey%3D%27r%27%29",
      "entity People O'Brien|r",
    );
    check("/People(PartitionKey='a+b',RowKey='')", "entity People a+b|");
    check("/People(PartitionKey='',RowKey='')", "entity People |");
    check("/People(PartitionKey='(',RowKey='),')", "entity People (|),");
  });

  it("may have the keys in either order, and white space after the comma", () => {
    check("/People(RowKey='r', PartitionKey='p')", "entity People p|r");
  });

  it("may go on below a table, where an endpoint already names one", () => {
    for (const rest of ["Tables", "Tables/", "Tables('t')", "u(PartitionKey='p',RowKey='r')"]) {
      check(`/People/${rest}`, "below table People");
    }
  });

  it("may end with a slash", () => {
    check("/Tables/", "tables");
    check("/Tables('People')/", "table People");
    check("/People/", "entities People");
    check("/People()/", "entities People");
    check("/People(PartitionKey='p',RowKey='r')/", "entity People p|r");
    check("/$batch/", "batch");
  });

  it("is refused with InvalidInput for a slash in a key, with OutOfRangeInput for other forbidden characters", () => {
    check("/People(PartitionKey='a/b',RowKey='r')", "InvalidInput");
    check("/People(PartitionKey='a%2Fb',RowKey='r')", "InvalidInput");
    check("/People(PartitionKey='a%5Cb',RowKey='r')", "InvalidInput");
    check("/People(PartitionKey='a%23b',RowKey='r')", "OutOfRangeInput");
    check("/People(PartitionKey='a',RowKey='%3F')", "OutOfRangeInput");
    check("/People(PartitionKey='%09',RowKey='r')", "OutOfRangeInput");
  });

  it("is refused when it is malformed or addresses nothing", () => {
    check("/People(PartitionKey='a')", "InvalidInput");
    check("/People(PartitionKey='a',PartitionKey='b')", "InvalidInput");
    check("/People('a','b')", "InvalidInput");
    check("/People(PartitionKey='a',RowKey='b'", "InvalidInput");
    check("/People(PartitionKey='a',RowKey='b')x", "InvalidInput");
    check("/People/More/x", "InvalidUri");
    check("/$batch/x", "NotImplemented");
    check("/People//", "InvalidUri");
    check("//", "InvalidUri");
    check("/()", "InvalidUri");
    check("/People/$count", "NotImplemented");
    check("/People(PartitionKey='a',RowKey='b')/Name/$value", "NotImplemented");
  });

  it("is parsed or refused with a ServiceError, whatever its characters", () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom("/", "(", ")", "'", ",", "=", " ", "a", "Tables", "%27"),
        }),
        (text) => {
          try {
            locateTable(`/${text}`);
          } catch (error) {
            assert.ok(error instanceof ServiceError, String(error));
          }
        },
      ),
    );
  });
});

function check(path: string, expected: string): void {
  let found: string;
  try {
    const { resource, name, partitionKey, rowKey } = locateTable(path);
    found = [resource, name, partitionKey === undefined ? "" : `${partitionKey}|${rowKey}`]
      .join(" ")
      .trimEnd();
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    found = error.code;
  }
  assert.equal(found, expected, path);
}
