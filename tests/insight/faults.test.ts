import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AzureTargets } from "@rowhouse/server/insight/azure-targets";
import { FaultGate, parseFaultRules } from "@rowhouse/server/insight/fault-rules";
import { printMetrics } from "@rowhouse/server/insight/print-metrics";
import { partsOf } from "@rowhouse/server/insight/prometheus";
import { RequestMetrics } from "@rowhouse/server/insight/request-metrics";
import { joinObservers, type Observer, type RequestRecord } from "@rowhouse/server/wire/observer";
import { FaultyEngine } from "../support/faulty-engine.ts";
import { batchedQuery, readBatch, sendBatch, sendChangeset } from "../wire/table-batch.ts";
import { fillTable, withServer } from "./watched-server.ts";

describe("Faults over HTTP", () => {
  it("are the service's own refusals, and do not affect other operations", async () => {
    const gate = new FaultGate(parseFaultRules("503 on QueryEntity of People"));
    await withServer({ gate }, async ({ wire }) => {
      await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r" }]);
      const point = await wire.send("GET", "/People(PartitionKey='p',RowKey='r')");
      assert.equal(point.status, 503);
      assert.match(String(point), /ServerBusy/);
      assert.equal((await wire.send("GET", "/People()")).status, 200);
    });
  });
});

describe("Faults inside a batch", () => {
  it("refuse the whole batch, with the index of the operation that the rule names", async () => {
    const gate = new FaultGate(parseFaultRules("503 on DeleteEntity of people"));
    await withServer({ gate }, async ({ wire }) => {
      await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r" }]);
      const answer = await sendChangeset(wire, [
        { method: "POST", path: "/People", body: { PartitionKey: "p", RowKey: "new" } },
        { method: "DELETE", path: entity("r"), headers: { "If-Match": "*" } },
      ]);
      const [refusal] = readBatch(answer);
      assert.deepEqual([refusal?.status, refusal?.code], [503, "ServerBusy"]);
      assert.match(refusal?.message ?? "", /^1:/);
      assert.equal((await wire.send("GET", entity("new"))).status, 404);
    });
  });

  it("refuse the query of a batch", async () => {
    const gate = new FaultGate(parseFaultRules("500 on QueryEntity"));
    await withServer({ gate }, async ({ wire }) => {
      await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r" }]);
      const [refusal] = readBatch(await sendBatch(wire, batchedQuery(entity("r"))));
      assert.deepEqual([refusal?.status, refusal?.code], [500, "OperationTimedOut"]);
    });
  });
});

describe("A refusal inside the answer to a batch", () => {
  it("is reported once to logs and metrics, with its cause, like the refusal of a request", async () => {
    const gate = new FaultGate(parseFaultRules("503 on DeleteEntity; 500 on QueryEntity"));
    const metrics = new RequestMetrics();
    const refused: RequestRecord[] = [];
    const log: Observer = { refusalsOnly: true, finished: (record) => refused.push(record) };
    await withServer({ gate, observer: joinObservers([metrics, log]) }, async ({ wire }) => {
      await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r" }]);
      const insert = (RowKey: string) =>
        ({ method: "POST", path: "/People", body: { PartitionKey: "p", RowKey } }) as const;
      await sendChangeset(wire, [insert("a"), insert("b")]);
      await sendChangeset(wire, [insert("c"), insert("r")]);
      const headers = { "If-Match": "*" };
      await sendChangeset(wire, [insert("d"), { method: "DELETE", path: entity("r"), headers }]);
      await sendBatch(wire, batchedQuery(entity("r")));
      await sendBatch(wire, batchedQuery("/Nobody()"));
    });
    assert.deepEqual(
      refused.map(({ status, errorCode, cause }) => [status, errorCode, cause !== undefined]),
      [
        [202, "EntityAlreadyExists", false],
        [202, "ServerBusy", true],
        [202, "OperationTimedOut", true],
        [202, "TableNotFound", false],
      ],
    );
    const text = await printMetrics([partsOf(metrics.metrics())]);
    assert.match(text, /operation="EntityGroupTransaction",status="202"\} 5$/m);
    for (const { errorCode } of refused) {
      assert.ok(text.includes(`rowhouse_errors_total{code="${errorCode}"} 1\n`), errorCode);
    }
  });
});

describe("An engine's fault inside a batch", () => {
  it("is reported to logs with the engine's error", async () => {
    const engine = new FaultyEngine();
    const causes: unknown[] = [];
    const log: Observer = { refusalsOnly: true, finished: ({ cause }) => causes.push(cause) };
    await withServer({ engine, observer: joinObservers([log]) }, async ({ wire }) => {
      await fillTable(wire, "People", []);
      engine.readFault = "Corrupt";
      const [refusal] = readBatch(await sendBatch(wire, batchedQuery(entity("r"))));
      assert.equal(refusal?.status, 500);
    });
    assert.match(String(causes), /^EngineError: Told to fail\.$/);
  });
});

function entity(rowKey: string): string {
  return `/People(PartitionKey='p',RowKey='${rowKey}')`;
}

describe("Enforced targets over HTTP", () => {
  it("answer 503 while a partition is over its target, and serve other partitions", async () => {
    // The allowance is not refilled for requests earlier than the last one counted.
    const at = Date.now() + 60_000;
    const insight = new AzureTargets("enforce");
    await withServer({ insight }, async ({ wire }) => {
      await fillTable(wire, "People", [{ PartitionKey: "p", RowKey: "r" }]);
      for (let i = 0; i < 2000; i++) {
        insight.admitWrite({
          ...{ at, account: "devstoreaccount1", table: "People", partitionKey: "p", client: "::1" },
          mutations: [{ kind: "insert", rowKey: "r", ifMatch: undefined }],
        });
      }
      const refused = await wire.send("GET", "/People(PartitionKey='p',RowKey='r')");
      assert.equal(refused.status, 503);
      const other = await wire.send("GET", "/People(PartitionKey='q',RowKey='r')");
      assert.equal(other.status, 404);
    });
  });
});
