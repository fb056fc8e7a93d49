import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/account-settings";
import { reportOf } from "rowhouse/report";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { KEY } from "../wire/storage-wire.ts";
import { TableWire } from "../wire/table-wire.ts";
import { fillTable } from "./watched-server.ts";

describe("rowhouse serve --insight --metrics --scan-budget", () => {
  it("serves the load of partitions and the counts of operations and engine, and reports scans", () =>
    withFolder(async (folder) => {
      const file = join(folder, "report.json");
      // One process for all: starting it takes longer than all that is asked of it.
      const budget = ["--scan-budget", "no table scan", "--scan-report", file];
      const flags = ["--insight", "--metrics", ...budget, "--silent"];
      const server = await startRowhouse(join(folder, "data"), flags);
      try {
        const account = DEVELOPMENT_ACCOUNT.name;
        const wire = new TableWire({ url: `${server.tableUrl}/${account}`, account, key: KEY });
        await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r", Age: 1 }]);
        await wire.send("GET", "/People(PartitionKey='p',RowKey='r')");
        await wire.send("GET", "/People()?$filter=Age%20eq%201");
        wire.close();
        const load = await text(`${server.tableUrl}/rowhouse/partitions`);
        assert.match(load, /"partition": "devstoreaccount1\/People\/p"/);
        assert.match(await text(`${server.tableUrl}/rowhouse/heatmap`), /"slotMs": 10000/);
        const metrics = await text(`${server.tableUrl}/metrics`);
        assert.match(metrics, /operation="QueryEntity",status="200"\} 1/);
        assert.match(metrics, /^rowhouse_engine_flushes_total [1-9]/m);
        assert.match(metrics, /^rowhouse_scan_budget_overruns_total 1$/m);
      } finally {
        assert.equal(await server.stop(), 0);
      }
      const { text: report, exitCode } = reportOf(file, "text");
      assert.equal(exitCode, 1);
      assert.match(report, /^scan budget: 2 queries, 1 over budget$/m);
      assert.match(report, /for example table scan where Age eq 1/);
    }));
});

describe("rowhouse report", () => {
  it("finds nothing wrong where no query was over budget, and says what is no report", () =>
    withFolder(async (folder) => {
      const file = join(folder, "report.json");
      const summary = { queries: 3, overBudget: 0, refused: 0, strict: false, overruns: [] };
      writeFileSync(file, JSON.stringify(summary));
      assert.deepEqual(reportOf(file, "text"), {
        text: "scan budget: 3 queries, 0 over budget\n",
        exitCode: 0,
      });
      for (const other of ["{}", "null", "no JSON"]) {
        writeFileSync(file, other);
        assert.throws(() => reportOf(file, "text"), /report\.json is no report of a scan budget/);
      }
      assert.throws(() => reportOf(join(folder, "none"), "text"), /does not exist/);
    }));
});

async function text(url: string): Promise<string> {
  return (await fetch(url)).text();
}
