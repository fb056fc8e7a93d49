import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { withFolder } from "../support/rowhouse-process.ts";
import { fillTable, withServer } from "./watched-server.ts";

const PROPERTIES = "/?restype=service&comp=properties";
const HOURS = "/$MetricsHourPrimaryTransactionsTable()";

describe("Hour metrics of the Table service", () => {
  it("are written when the server ends if service properties enable them, unlisted and read-only", () =>
    withFolder(async (folder) => {
      const open = () => openLmdbEngine({ path: join(folder, "data") });
      await withServer({ engine: await open() }, async ({ wire }) => {
        await fillTable(wire, "Before", []);
      });
      await withServer({ engine: await open() }, async ({ wire }) => {
        assert.equal((await wire.send("GET", HOURS)).status, 404);
        const answer = await wire.send("PUT", PROPERTIES, { body: metrics });
        assert.equal(answer.status, 202);
        await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r" }]);
      });
      await withServer({ engine: await open() }, async ({ wire }) => {
        const rows = await wire.send("GET", HOURS);
        assert.equal(rows.status, 200);
        const { value } = JSON.parse(rows.text) as { value: { RowKey: string; Success: string }[] };
        const row = value.find(({ RowKey }) => RowKey === "user;InsertEntity");
        assert.equal(row?.Success, "1");
        assert.doesNotMatch((await wire.send("GET", "/Tables")).text, /Metrics/);
        const removed = "/Tables('$MetricsHourPrimaryTransactionsTable')";
        assert.equal((await wire.send("DELETE", removed)).status, 403);
        const own = { body: { PartitionKey: "p", RowKey: "r" } };
        const entity = `${HOURS.slice(0, -1)}PartitionKey='p',RowKey='r')`;
        for (const [verb, path] of [
          ["POST", HOURS],
          ["POST", HOURS.toLowerCase()],
          ["PUT", entity],
        ] as const) {
          assert.equal((await wire.send(verb, path, own)).status, 403, `${verb} ${path}`);
        }
        const deleted = await wire.send("DELETE", entity, { headers: { "If-Match": "*" } });
        assert.equal(deleted.status, 403);
      });
    }));
});

const metrics =
  '<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties><HourMetrics>' +
  "<Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>" +
  "<RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy>" +
  "</HourMetrics></StorageServiceProperties>";
