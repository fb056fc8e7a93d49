import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TableClient } from "@azure/data-tables";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

describe("rowhouse serve --insight --metrics", () => {
  it("serves the load of partitions and the counts of operations and engine", () =>
    withFolder(async (folder) => {
      const server = await startRowhouse(folder, ["--insight", "--metrics", "--silent"]);
      try {
        const table = TableClient.fromConnectionString(server.connectionString, "People", {
          allowInsecureConnection: true,
        });
        await table.createTable();
        await table.createEntity({ partitionKey: "p", rowKey: "r", Age: 1 });
        await table.getEntity("p", "r");
        const load = await text(`${server.tableUrl}/rowhouse/partitions`);
        assert.match(load, /"partition": "devstoreaccount1\/People\/p"/);
        assert.match(await text(`${server.tableUrl}/rowhouse/heatmap`), /"slotMs": 10000/);
        const metrics = await text(`${server.tableUrl}/metrics`);
        assert.match(metrics, /operation="QueryEntity",status="200"\} 1/);
        assert.match(metrics, /^rowhouse_engine_flushes_total [1-9]/m);
      } finally {
        await server.stop();
      }
    }));
});

async function text(url: string): Promise<string> {
  return (await fetch(url)).text();
}
