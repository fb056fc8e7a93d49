import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { planQuery } from "../query/planner.ts";
import { keysRead } from "./insight.ts";
import { printMetrics } from "./print-metrics.ts";
import { Histogram, partsOf } from "./prometheus.ts";
import { engineMetrics, RequestMetrics } from "./request-metrics.ts";
import { isTraceApi, tracingObserver } from "./traces.ts";

const record = {
  service: "table",
  operation: "InsertEntity",
  requestId: "id",
  clientRequestId: undefined,
  account: "a",
  verb: "POST",
  path: "/a/T",
  status: 201,
  errorCode: undefined,
  refusedInside: undefined,
  cause: undefined,
  durationMs: 3,
  remoteAddress: "::1",
  caller: "shared-key",
  subject: undefined,
  requestBytes: 20,
  responseBytes: 300,
} as const;

describe("The metrics of requests", () => {
  it("count operations by status and refusals by code, and measure durations", async () => {
    const metrics = new RequestMetrics();
    metrics.finished(record);
    metrics.finished({ ...record, status: 409, errorCode: "EntityAlreadyExists", durationMs: 1 });
    const text = await printMetrics([partsOf(metrics.metrics())]);
    const labels = 'service="table",operation="InsertEntity"';
    for (const line of [
      "# TYPE rowhouse_requests_total counter",
      `rowhouse_requests_total{${labels},status="201"} 1`,
      `rowhouse_requests_total{${labels},status="409"} 1`,
      `rowhouse_request_duration_seconds_bucket{${labels},le="0.001"} 1`,
      `rowhouse_request_duration_seconds_bucket{${labels},le="0.005"} 2`,
      `rowhouse_request_duration_seconds_bucket{${labels},le="+Inf"} 2`,
      `rowhouse_request_duration_seconds_count{${labels}} 2`,
      'rowhouse_errors_total{code="EntityAlreadyExists"} 1',
    ]) {
      assert.ok(text.includes(`${line}\n`), line);
    }
  });

  it("count queries, entities and bytes by query class", async () => {
    const metrics = new RequestMetrics();
    const base = { at: 0, account: "a", table: "T", planText: "", client: "::1" };
    for (const filter of ["PartitionKey eq 'p' and RowKey eq 'r'", "Age gt 1", "Age gt 2"]) {
      const plan = planQuery(parseFilter(filter));
      const cost = { entitiesRead: 5, entitiesReturned: 2, bytesRead: 900, engineMicros: 60 };
      metrics.queried(
        {
          ...base,
          plan,
          ...keysRead(plan),
          filter,
          projected: false,
          continued: false,
          class: plan.class,
        },
        cost,
      );
    }
    const text = await printMetrics([partsOf(metrics.metrics())]);
    for (const line of [
      'rowhouse_queries_total{class="point query"} 1',
      'rowhouse_queries_total{class="table scan"} 2',
      'rowhouse_entities_read_total{class="table scan"} 10',
      'rowhouse_entities_returned_total{class="table scan"} 4',
      'rowhouse_bytes_read_total{class="point query"} 900',
      'rowhouse_query_engine_seconds_bucket{class="table scan",le="0.00005"} 0',
      'rowhouse_query_engine_seconds_bucket{class="table scan",le="0.0001"} 2',
    ]) {
      assert.ok(text.includes(`${line}\n`), line);
    }
  });

  it("count each page in the class of its whole query, also if only one entity remains to be read", async () => {
    const metrics = new RequestMetrics();
    const plan = planQuery(parseFilter("PartitionKey eq 'p' and RowKey eq 'r'"));
    const asked = { at: 0, account: "a", table: "T", planText: "", client: "::1", plan };
    const cost = { entitiesRead: 1, entitiesReturned: 1, bytesRead: 90, engineMicros: 60 };
    const page = { filter: "", projected: false, continued: true, class: "table scan" } as const;
    metrics.queried({ ...asked, ...keysRead(plan), ...page }, cost);
    const text = await printMetrics([partsOf(metrics.metrics())]);
    assert.match(text, /^rowhouse_queries_total\{class="table scan"\} 1$/m);
  });

  it("include the counts of the engine", async () => {
    const text = await printMetrics([
      partsOf(
        engineMetrics({
          flushes: 2,
          commits: 9,
          groupCommitsMax: 7,
          scansOpen: 0,
          fileBytes: 16384,
          unusedBytes: 4096,
          diskFreeBytes: 1,
        }),
      ),
    ]);
    assert.match(text, /^rowhouse_engine_flushes_total 2$/m);
    assert.match(text, /^rowhouse_engine_file_bytes 16384$/m);
  });

  it("escape special characters in labels", async () => {
    const histogram = new Histogram([1]);
    histogram.add(2);
    const samples = histogram.samples({ name: 'a"b\\c\nd' });
    const text = await printMetrics([
      partsOf([{ name: "m", type: "histogram", help: "h", samples }]),
    ]);
    assert.match(text, /m_bucket\{name="a\\"b\\\\c\\nd",le="1"\} 0/);
  });
});

describe("Traces", () => {
  it("contain one span per request, from its head to its answer", () => {
    const spans: unknown[] = [];
    const api: unknown = {
      trace: {
        getTracer: () => ({
          startSpan: (name: string, { startTime }: { startTime: number }) => ({
            setStatus: (status: object) => spans.push(status),
            end: (endTime: number) => spans.push([name, startTime, endTime]),
          }),
        }),
      },
    };
    assert.ok(isTraceApi(api));
    tracingObserver(api, () => 1000).finished({ ...record, status: 503, errorCode: "ServerBusy" });
    assert.deepEqual(spans, [{ code: 2 }, ["InsertEntity", 997, 1000]]);
  });

  it("accept only a module with the tracing API", () => {
    assert.ok(!isTraceApi({ trace: {} }));
    assert.ok(!isTraceApi(undefined));
  });
});
