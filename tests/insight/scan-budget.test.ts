import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { joinInsights } from "@rowhouse/server/insight/insight";
import { ScanBudget } from "@rowhouse/server/insight/scan-budget";
import { parseScanRules } from "@rowhouse/server/insight/scan-budget-rules";
import { fillTable, withServer } from "./watched-server.ts";

const people = [1, 2, 3].map((age) => ({ PartitionKey: "p", RowKey: String(age), Age: age }));

describe("A strict scan budget over HTTP", () => {
  it("answers 400 ScanBudgetExceeded to a scan and serves the point query", async () => {
    const insight = joinInsights([new ScanBudget(parseScanRules("no table scan; strict"))]);
    await withServer({ insight }, async ({ wire }) => {
      await fillTable(wire, "People", people);
      const scan = await wire.send("GET", "/People()?$filter=Age%20eq%202");
      assert.equal(scan.status, 400);
      assert.match(String(scan), /ScanBudgetExceeded/);
      assert.match(String(scan), /PeopleByAge/);
      const point = await wire.send("GET", "/People(PartitionKey='p',RowKey='2')");
      assert.equal(point.status, 200);
    });
  });

  it("reports the pages of a scan as one overrun", async () => {
    const budget = new ScanBudget(parseScanRules("no table scan"));
    await withServer({ insight: joinInsights([budget]) }, async ({ wire }) => {
      await fillTable(wire, "People", people);
      let next = "";
      for (let page = 0; page < 3; page++) {
        const answer = await wire.send("GET", `/People()?$top=1${next}`);
        assert.equal(answer.status, 200);
        const [partitionKey, rowKey] = ["Partition", "Row"].map((name) =>
          answer.header(`x-ms-continuation-Next${name}Key`),
        );
        next = `&NextPartitionKey=${partitionKey}&NextRowKey=${rowKey}`;
      }
    });
    const { overBudget, overruns } = budget.summary();
    const [scan, ...others] = overruns;
    assert.deepEqual([overBudget, others], [3, []]);
    assert.deepEqual([scan?.class, scan?.count, scan?.entitiesReturned], ["table scan", 3, 3]);
  });

  it("refuses a query that returns too few of the entities it reads", async () => {
    const insight = joinInsights([new ScanBudget(parseScanRules("density 0.5 from 3; strict"))]);
    await withServer({ insight }, async ({ wire }) => {
      await fillTable(wire, "People", people);
      const scan = await wire.send("GET", "/People()?$filter=Age%20eq%202");
      assert.match(String(scan), /read 3 entities to return 1/);
    });
  });
});
