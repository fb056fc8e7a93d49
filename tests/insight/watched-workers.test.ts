import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { readRecording } from "@rowhouse/server/insight/advice/read-recording";
import { recordedLines } from "rowhouse/advise";
import { reportOf } from "rowhouse/report";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { KEY } from "../wire/storage-wire.ts";
import { TableWire } from "../wire/table-wire.ts";
import { fillTable } from "./watched-server.ts";

const CLIENTS = 6;

describe("rowhouse serve --workers 2 with everything watched", () => {
  it("serves, reports and records as one server does", () =>
    withFolder(async (folder) => {
      const files = { report: join(folder, "report.json"), record: join(folder, "traffic.jsonl") };
      const server = await startRowhouse(join(folder, "data"), [
        ...["--workers", "2", "--silent", "--insight", "--targets", "azure"],
        ...["--scan-budget", "no table scan", "--scan-report", files.report],
        ...["--record", files.record],
      ]);
      try {
        const account = DEVELOPMENT_ACCOUNT.name;
        const open = () =>
          new TableWire({ url: `${server.tableUrl}/${account}`, account, key: KEY });
        const first = open();
        await fillTable(first, "People", [{ PartitionKey: "p", RowKey: "r", Age: 1 }]);
        first.close();
        // Each has its own connection; the workers take connections in turn.
        for (let i = 0; i < CLIENTS; i++) {
          const wire = open();
          await wire.send("GET", "/People()?$filter=Age%20eq%201");
          wire.close();
        }
        const pages = server.lines.flatMap((line) => /^Insight is at (\S+)$/.exec(line)?.[1] ?? []);
        assert.equal(pages.length, 4, server.lines.join("\n"));
        const page = (name: string) => pages.find((each) => each.includes(`/${name}?`)) ?? "";
        const read = async (name: string) =>
          (await fetch(page(name), { headers: { Connection: "close" } })).text();
        // Twice, so that either worker answers.
        for (let i = 0; i < 2; i++) {
          assert.match(await read("scan-budget"), new RegExp(`"overBudget": ${CLIENTS},`));
          // Each query counts, and the insert.
          assert.match(await read("targets"), new RegExp(`"requests": ${CLIENTS + 1},`));
          assert.match(await read("partitions"), /"partition": "devstoreaccount1\/People\/p"/);
          assert.match(await read("heatmap"), /"slotMs": 10000,/);
        }
      } finally {
        assert.equal(await server.stop(), 0);
      }
      const printed = server.lines.filter((line) => /^scan budget: /.test(line));
      assert.deepEqual(printed, [
        `scan budget: ${CLIENTS} pages of queries, ${CLIENTS} over budget`,
      ]);
      assert.equal(reportOf(files.report, "json").exitCode, 1);
      let scans = 0;
      let writes = 0;
      const { ending } = readRecording(recordedLines(files.record), {
        queried: () => void scans++,
        wrote: () => void writes++,
      });
      assert.deepEqual([scans, writes, ending], [CLIENTS, 1, "whole"]);
      assert.equal(statSync(`${files.record}.2`).mode & 0o777, 0o600);
    }));
});
