import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FaultGate, parseFaultRules } from "@rowhouse/server/insight/fault-rules";
import { joinInsights } from "@rowhouse/server/insight/insight";
import { printMetrics } from "@rowhouse/server/insight/print-metrics";
import { partsOf } from "@rowhouse/server/insight/prometheus";
import { RequestMetrics } from "@rowhouse/server/insight/request-metrics";
import type { ServerOptions } from "@rowhouse/server/server";
import { pino } from "pino";
import { slowInsight, slowObserver } from "rowhouse/serve/watch-slow";
import { fillTable, withServer } from "./watched-server.ts";

describe("The slow-query log", () => {
  it("contains the plan and the cost of a slow query", async () => {
    const lines = await linesAbove(0);
    const scan = lines.find(({ msg, table }) => msg === "slow query" && table === "People");
    assert.equal(scan?.plan, "table scan where Age eq 2");
    assert.deepEqual([scan?.entitiesRead, scan?.entitiesReturned], [3, 1]);
  });

  it("contains every other slow request once, and no query twice", async () => {
    const lines = await linesAbove(0);
    const others = lines.filter(({ msg }) => msg === "slow request");
    assert.deepEqual(
      others.map(({ operation }) => operation),
      ["CreateTable", "InsertEntity", "InsertEntity", "InsertEntity"],
    );
    assert.equal(lines.length, others.length + 1);
  });

  it("contains queries that failed before they read a page", async () => {
    const gate = new FaultGate(parseFaultRules("503 on QueryEntities"));
    const lines = await linesAbove(0, { gate });
    const { operation, msg } = lines.at(-1) ?? {};
    assert.deepEqual([operation, msg], ["QueryEntities", "slow request"]);
  });

  it("is empty below its threshold", async () => {
    assert.deepEqual(await linesAbove(3_600_000), []);
  });
});

describe("The duration of requests", () => {
  it("is measured in fractions of a millisecond with a stopwatch", async () => {
    let ms = 0;
    const stopwatch = {
      now() {
        ms += 0.08;
        return ms;
      },
    };
    const metrics = new RequestMetrics();
    await withServer({ observer: metrics, stopwatch }, async ({ wire }) => {
      await wire.send("GET", "/Tables");
    });
    const bucket =
      'rowhouse_request_duration_seconds_bucket{service="table",operation="QueryTables"';
    const text = await printMetrics([partsOf(metrics.metrics())]);
    assert.ok(text.includes(`${bucket},le="0.00005"} 0\n`), text);
    assert.ok(text.includes(`${bucket},le="0.0001"} 1\n`), text);
  });
});

interface Line {
  readonly msg: string;
  readonly table?: string;
  readonly operation?: string;
  readonly plan?: string;
  readonly entitiesRead?: number;
  readonly entitiesReturned?: number;
}

/** The log of three inserts and a scan. */
async function linesAbove(
  thresholdMs: number,
  options: Partial<ServerOptions> = {},
): Promise<Line[]> {
  const lines: Line[] = [];
  const log = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line)) });
  const insight = joinInsights([slowInsight(thresholdMs, log)]);
  const observer = slowObserver(thresholdMs, log);
  await withServer({ ...options, insight, observer }, async ({ wire }) => {
    const people = [1, 2, 3].map((age) => ({ PartitionKey: "p", RowKey: `${age}`, Age: age }));
    await fillTable(wire, "People", people);
    await wire.send("GET", "/People()?$filter=Age%20eq%202");
  });
  return lines;
}
