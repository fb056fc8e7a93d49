import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableClient } from "@azure/data-tables";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("rowhouse serve --insight --metrics --scan-budget", () => {
  it("serves the load of partitions and the counts of operations and engine, and reports scans", () =>
    withFolder(async (folder) => {
      const file = join(folder, "report.json");
      // One process for all: starting it takes longer than all that is asked of it.
      const budget = ["--scan-budget", "no table scan", "--scan-report", file];
      const flags = ["--insight", "--metrics", ...budget, "--silent"];
      const server = await startRowhouse(join(folder, "data"), flags);
      try {
        const table = TableClient.fromConnectionString(server.connectionString, "People", {
          allowInsecureConnection: true,
        });
        await table.createTable();
        await table.createEntity({ partitionKey: "p", rowKey: "r", Age: 1 });
        await table.getEntity("p", "r");
        await table.listEntities({ queryOptions: { filter: "Age eq 1" } }).next();
        const load = await text(`${server.tableUrl}/rowhouse/partitions`);
        assert.match(load, /"partition": "devstoreaccount1\/People\/p"/);
        assert.match(await text(`${server.tableUrl}/rowhouse/heatmap`), /"slotMs": 10000/);
        const metrics = await text(`${server.tableUrl}/metrics`);
        assert.match(metrics, /operation="QueryEntity",status="200"\} 1/);
        assert.match(metrics, /^rowhouse_engine_flushes_total [1-9]/m);
      } finally {
        assert.equal(await server.stop(), 0);
      }
      const options = { encoding: "utf8", cwd: root } as const;
      const command = ["--conditions=source", "--import", "tsx", "cli/src/main.ts", "report", file];
      const report = spawnSync(process.execPath, command, options);
      assert.equal(report.status, 1, report.stderr);
      assert.match(report.stdout, /^scan budget: 2 queries, 1 over budget$/m);
      assert.match(report.stdout, /for example table scan where Age eq 1/);
    }));
});

async function text(url: string): Promise<string> {
  return (await fetch(url)).text();
}
