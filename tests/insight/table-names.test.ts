import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Insight } from "@rowhouse/server/insight/insight";
import { batchedQuery, readBatch, sendBatch, sendChangeset } from "../wire/table-batch.ts";
import type { TableWire } from "../wire/table-wire.ts";
import { fillTable, withServer } from "./watched-server.ts";

const entity = { PartitionKey: "p", RowKey: "r" };
const keys = "(PartitionKey='p',RowKey='r')";

describe("Watchers", () => {
  for (const [request, send] of [
    ["a list", (wire) => wire.send("GET", "/PEOPLE()")],
    ["a point query", (wire) => wire.send("GET", `/PEOPLE${keys}`)],
    ["a write", (wire) => wire.send("PUT", `/PEOPLE${keys}`, { body: entity })],
    ["a delete", (wire) => wire.send("DELETE", `/PEOPLE${keys}`, { headers: { "If-Match": "*" } })],
    ["a batched query", (wire) => sendBatch(wire, batchedQuery(`/PEOPLE${keys}`))],
    [
      "a change set",
      (wire) => sendChangeset(wire, [{ method: "PUT", path: `/PEOPLE${keys}`, body: entity }]),
    ],
  ] satisfies [string, (wire: TableWire) => Promise<unknown>][]) {
    it(`receive ${request} with the name that its table was created with`, async () => {
      const { insight, told } = listener();
      await withServer({ insight }, async ({ wire }) => {
        await fillTable(wire, "People", [entity]);
        // At first the server does not know that both names mean the same table.
        await send(wire);
        await send(wire);
      });
      assert.ok(told.length >= 3);
      assert.deepEqual(new Set(told), new Set(["People"]));
    });
  }

  it("receive no requests to missing tables", async () => {
    const { insight, told } = listener();
    await withServer({ insight }, async ({ wire }) => {
      for (const path of ["/Nobody()", `/Nobody${keys}`]) {
        assert.equal((await wire.send("GET", path)).status, 404);
      }
      assert.equal((await wire.send("POST", "/Nobody", { body: entity })).status, 404);
      const [refusal] = readBatch(
        await sendChangeset(wire, [{ method: "POST", path: "/Nobody", body: entity }]),
      );
      assert.deepEqual([refusal?.status, refusal?.code], [404, "TableNotFound"]);
      assert.match(refusal?.message ?? "", /^0:/);
    });
    assert.deepEqual(told, []);
  });
});

/** Records the table names that it receives. */
function listener(): { readonly insight: Insight; readonly told: string[] } {
  const told: string[] = [];
  const tell = ({ table }: { readonly table: string }) => {
    told.push(table);
  };
  return { insight: { admitQuery: tell, queried: tell, admitWrite: tell }, told };
}
