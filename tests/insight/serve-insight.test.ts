import assert from "node:assert/strict";
import { lstatSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { readRecording } from "@rowhouse/server/insight/advice/read-recording";
import { reportOf } from "rowhouse/report";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { KEY } from "../wire/storage-wire.ts";
import { TableWire } from "../wire/table-wire.ts";
import { fillTable } from "./watched-server.ts";

describe("rowhouse serve --insight --metrics --scan-budget", () => {
  it("serves the load of partitions and the counts of operations and engine, and reports scans", () =>
    withFolder(async (folder) => {
      const file = join(folder, "report.json");
      // One process for all, because starting it takes longer than all the requests.
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
        const [load = "", heat = "", ...others] = server.lines.flatMap(
          (line) => /^Insight is at (\S+)$/.exec(line)?.[1] ?? [],
        );
        assert.equal(others.length, 1, "the scan budget's page");
        assert.match(await text(load), /"partition": "devstoreaccount1\/People\/p"/);
        assert.match(await text(heat), /"slotMs": 10000/);
        const refused = await fetch(`${server.tableUrl}/_rowhouse/partitions`);
        assert.equal(refused.status, 403);
        const metrics = await text(`${server.tableUrl}/_rowhouse/metrics`);
        assert.match(metrics, /operation="QueryEntity",status="200"\} 1/);
        assert.match(metrics, /^rowhouse_engine_flushes_total [1-9]/m);
        assert.match(metrics, /^rowhouse_scrub_damaged 0$/m);
        assert.match(metrics, /^rowhouse_scan_budget_overruns_total 1$/m);
      } finally {
        assert.equal(await server.stop(), 0);
      }
      const { text: report, exitCode } = reportOf(file, "text");
      assert.equal(exitCode, 1);
      assert.match(report, /^scan budget: 2 pages of queries, 1 over budget$/m);
      assert.match(report, /for example: table scan where Age eq 1/);
    }));
});

describe("rowhouse serve --scan-budget", () => {
  const serve = (folder: string, report: string, flags: readonly string[] = []) => {
    const ports = ["table", "queue", "blob"].flatMap((name) => [`--${name}Port`, "0"]);
    const budget = ["--scan-budget", "no table scan", "--scan-report", report];
    return new RowhouseCommand(["serve", "--location", folder, ...ports, ...budget, ...flags]);
  };

  it("removes the report of an earlier run when it starts", () =>
    withFolder(async (folder) => {
      const file = join(folder, "report.json");
      writeFileSync(file, '{"queries":3,"overBudget":0,"overruns":[]}');
      const server = serve(join(folder, "data"), file);
      await server.until(/Table service is successfully listening/);
      server.signal("SIGKILL");
      await server.exited;
      assert.throws(() => reportOf(file, "text"), /does not exist/);
    }));

  it("prints what opens its pages, and leaves it out of the log", () =>
    withFolder(async (folder) => {
      const server = serve(join(folder, "data"), join(folder, "report.json"), ["--insight"]);
      await server.until(/Rowhouse is serving/, "stderr");
      await server.until(/\/_rowhouse\/partitions\?token=\w+/);
      await server.until(/\/_rowhouse\/#\w+/);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0, server.stderr);
      assert.doesNotMatch(server.stderr, /token=|#/);
    }));

  it("does not start if it cannot write its report", () =>
    withFolder(async (folder) => {
      const server = serve(join(folder, "data"), join(folder, "none", "report.json"));
      assert.equal(await server.exited, 2);
      assert.match(server.stderr, /cannot start: Cannot write the report .*report\.json: ENOENT/);
    }));

  it("does not replace a device or link in place of its report", () =>
    withFolder(async (folder) => {
      const link = join(folder, "report.json");
      symlinkSync("/dev/null", link);
      const server = serve(join(folder, "data"), link);
      await server.until(/Table service is successfully listening/);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0, server.stderr);
      assert.ok(lstatSync(link).isSymbolicLink());
    }));

  it("writes report and recording even if its standard output is closed", () =>
    withFolder(async (folder) => {
      const files = [join(folder, "report.json"), join(folder, "traffic.jsonl")] as const;
      writeFileSync(files[1], "of another run", { mode: 0o644 });
      const flags = ["--targets", "azure", "--record", files[1]];
      const server = serve(join(folder, "data"), files[0], flags);
      await server.until(/Table service is successfully listening/);
      server.stopReading();
      server.signal("SIGINT");
      assert.equal(await server.exited, 0);
      assert.equal(reportOf(files[0], "text").exitCode, 0);
      assert.equal(readRecording(readFileSync(files[1], "utf8").split("\n"), {}).ending, "whole");
      assert.equal(statSync(files[1]).mode & 0o777, 0o600);
    }));
});

describe("rowhouse report", () => {
  it("exits with 0 if no query was over budget, and refuses files that are not reports", () =>
    withFolder(async (folder) => {
      const file = join(folder, "report.json");
      const summary = { queries: 3, overBudget: 0, refused: 0, strict: false, overruns: [] };
      writeFileSync(file, JSON.stringify(summary));
      assert.deepEqual(reportOf(file, "text"), {
        text: "scan budget: 3 pages of queries, 0 over budget\n",
        exitCode: 0,
      });
      const text = "\u001b[2J\nnothing found".padEnd(1000, "x");
      const overrun = {
        ...{ account: "a", table: "T", class: "table scan", shape: text, reason: "no table scan" },
        ...{ example: text, plan: text, remedy: "\u0007", count: 1, refused: 0 },
        ...{ entitiesRead: 1, entitiesReturned: 0 },
      };
      writeFileSync(file, JSON.stringify({ ...summary, overBudget: 1, overruns: [overrun] }));
      const report = reportOf(file, "text");
      assert.equal(report.exitCode, 1);
      // Text from clients is stripped of control characters and shortened.
      assert.match(
        report.text,
        /^a\/T: table scan where \ufffd\[2J\ufffdnothing foundx{282}\.\.\.$/m,
      );
      assert.match(report.text, /^ {2}\ufffd$/m);
      assert.ok(report.text.length < 1000);
      assert.ok(reportOf(file, "json").text.length > 3000);
      for (const other of ["{}", '{"overruns":[]}', "null", "no JSON"]) {
        writeFileSync(file, other);
        assert.throws(() => reportOf(file, "text"), /report\.json is not a scan budget report/);
      }
      assert.throws(() => reportOf(join(folder, "none"), "text"), /does not exist/);
    }));
});

async function text(url: string): Promise<string> {
  return (await fetch(url)).text();
}
