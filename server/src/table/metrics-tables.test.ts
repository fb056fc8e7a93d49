import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { encodeName } from "@rowhouse/protocol/property-name";
import { openAccountIds } from "../catalog/account-ids.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import {
  type AtomicWrite,
  CALL_MS_MAX,
  type CommitResult,
  EngineError,
  type EngineErrorCode,
} from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { AnalyticsMetrics, type MetricsSettings } from "../insight/analytics-metrics.ts";
import type { RequestRecord } from "../wire/observer.ts";
import { EntityStore, type TableValue } from "./entity-store.ts";
import { MetricsTables } from "./metrics-tables.ts";
import { RecordView } from "./record-view.ts";

const AT = Date.UTC(2026, 10, 20, 14, 5, 30);
const HOUR = "20261120T1400";
const HOURS = "$MetricsHourPrimaryTransactionsTable";
const MINUTES = "$MetricsMinutePrimaryTransactionsTable";
const DAY_MS = 86_400_000;

describe("The metrics tables", () => {
  it("have one row for all requests of an hour, and one per operation with IncludeAPIs", async () => {
    const lab = await open({ hours: { includeApis: true } });
    lab.process().count([{ operation: "InsertEntity" }, { operation: "QueryEntity", status: 404 }]);
    await lab.write();
    const all = await lab.row(HOURS, HOUR, "user;All");
    assert.deepEqual(
      ["TotalRequests", "TotalBillableRequests", "Success", "ClientOtherError"].map(all),
      [2, 2, 1, 1],
    );
    assert.deepEqual(["Availability", "PercentSuccess"].map(all), [100, 50]);
    const inserts = await lab.row(HOURS, HOUR, "user;InsertEntity");
    assert.deepEqual(["TotalRequests", "TotalIngress", "TotalEgress"].map(inserts), [1, 20, 300]);
    assert.equal(await lab.find(MINUTES, "20261120T1405", "user;All"), undefined);
  });

  it("have no rows per operation without IncludeAPIs, and count minutes without hours", async () => {
    const lab = await open({ minutes: { includeApis: false } });
    lab.process().count([{ operation: "InsertEntity" }]);
    await lab.write();
    assert.ok(await lab.find(MINUTES, "20261120T1405", "user;All"));
    assert.equal(await lab.find(MINUTES, "20261120T1405", "user;InsertEntity"), undefined);
    assert.equal(await lab.find(HOURS, HOUR, "user;All"), undefined);
  });

  it("add to existing rows, including those of another process", async () => {
    const lab = await open({ hours: { includeApis: false } });
    const [first, second] = [lab.process(), lab.process()];
    for (let turn = 0; turn < 3; turn++) {
      first.count([{ durationMs: 10 }]);
      second.count([{ durationMs: 40 }, { status: 503, errorCode: "ServerBusy" }]);
      await lab.write();
    }
    const all = await lab.row(HOURS, HOUR, "user;All");
    assert.deepEqual(
      ["TotalRequests", "Success", "ThrottlingError", "AverageE2ELatency"].map(all),
      [9, 6, 3, 25],
    );
    assert.ok(Math.abs(all("PercentThrottlingError")! - 100 / 3) < 1e-9);
  });

  it("count requests by caller and by kind of error", async () => {
    const lab = await open({ hours: { includeApis: false } });
    lab
      .process()
      .count([
        { caller: "anonymous", status: 403 },
        { caller: "service-sas" },
        { status: 500, errorCode: "OperationTimedOut" },
        { status: 500, errorCode: "InternalError" },
      ]);
    await lab.write();
    const all = await lab.row(HOURS, HOUR, "user;All");
    const columns = ["AnonymousAuthorizationError", "SASSuccess", "ServerTimeoutError"];
    assert.deepEqual([...columns, "ServerOtherError"].map(all), [1, 1, 1, 1]);
    assert.ok(Math.abs(all("Availability")! - 100 / 3) < 1e-9);
  });

  it("keep rows for the retention period", async () => {
    const lab = await open({ hours: { includeApis: false } }, 7);
    const process = lab.process();
    process.count([{}]);
    await lab.write();
    lab.clock.at += 7 * DAY_MS;
    process.count([{}]);
    await lab.write();
    assert.ok(await lab.find(HOURS, HOUR, "user;All"));
    lab.clock.at += 3_600_000;
    process.count([{}]);
    await lab.write();
    assert.equal(await lab.find(HOURS, HOUR, "user;All"), undefined);
    assert.ok(await lab.find(HOURS, "20261127T1400", "user;All"));
  });

  it("have no rows for an account without metrics, for which nothing is written", async () => {
    const lab = await open({});
    lab.process().count([{}]);
    const before = lab.engine.commits;
    await lab.write();
    assert.equal(lab.engine.commits, before);
  });

  it("include later what could not be written before", async () => {
    const lab = await open({ hours: { includeApis: false } });
    const process = lab.process();
    process.count([{}]);
    lab.engine.fault = "bug";
    await assert.rejects(lab.write());
    lab.engine.fault = undefined;
    process.count([{}]);
    await lab.write();
    assert.equal((await lab.row(HOURS, HOUR, "user;All"))("TotalRequests"), 2);
  });

  it("count nothing twice when the outcome of a write is unknown", async () => {
    const lab = await open({ hours: { includeApis: false } });
    const process = lab.process();
    process.count([{}]);
    await lab.write();
    process.count([{}]);
    lab.engine.fault = "Unknown";
    await assert.rejects(lab.write(), { code: "Unknown" });
    lab.engine.fault = undefined;
    process.count([{}]);
    await lab.write();
    assert.equal((await lab.row(HOURS, HOUR, "user;All"))("TotalRequests"), 3);
  });

  it("count correctly when the outcome of creating their table is unknown", async () => {
    const lab = await open({ hours: { includeApis: false } });
    lab.process().count([{}]);
    lab.engine.fault = "Unknown";
    await assert.rejects(lab.write(), { code: "Unknown" });
    lab.engine.fault = undefined;
    await lab.write();
    assert.equal((await lab.row(HOURS, HOUR, "user;All"))("TotalRequests"), 1);
  });

  it("try an unavailable store once per run, not once per row, and lose no row", async () => {
    const lab = await open({ hours: { includeApis: true } });
    const process = lab.process();
    process.count(OPERATIONS);
    await lab.write();
    const { commits } = lab.engine;
    lab.engine.fault = "Unavailable";
    process.count(OPERATIONS);
    await assert.rejects(lab.write(), { code: "Unavailable" });
    assert.equal(lab.engine.commits, commits + 1);
    lab.engine.fault = undefined;
    await lab.write();
    for (const { operation } of OPERATIONS) {
      assert.equal((await lab.row(HOURS, HOUR, `user;${operation}`))("TotalRequests"), 2);
    }
  });

  it("are written when the server closes, for ten seconds at most", async () => {
    for (const [rowMs, errors] of [
      [0, []],
      [6_000, ["Error: 2 rows of metrics were not written before the server ended."]],
    ] as const) {
      const lab = await open({ hours: { includeApis: true } });
      const process = lab.process();
      process.count(OPERATIONS);
      await lab.write();
      process.count(OPERATIONS);
      lab.engine.onCommit = () => {
        lab.clock.at += rowMs;
      };
      await process.close();
      assert.deepEqual(process.errors.map(String), errors);
    }
  });

  it("do not delay the server's close when the store is already unavailable", async () => {
    const lab = await open({ hours: { includeApis: true } });
    const process = lab.process();
    process.count(OPERATIONS);
    let closing: Promise<void> | undefined;
    lab.engine.fault = "Unavailable";
    lab.engine.onCommit = () => {
      closing ??= process.close();
      lab.clock.at += CALL_MS_MAX;
    };
    process.start();
    while (closing === undefined) await new Promise((resolve) => setImmediate(resolve));
    await closing;
    assert.equal(lab.engine.commits, lab.commitsToOpen + 1);
    assert.match(String(process.errors), /4 rows of metrics were not written/);
  });
});

/** A memory engine whose commits can be made to fail. */
class TestEngine extends MemoryEngine {
  /** The error of each commit. With "Unknown" the commit takes place but is not acknowledged. */
  fault: EngineErrorCode | "bug" | undefined;
  commits = 0;
  /** Called on each commit. */
  onCommit = () => {};

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    this.commits++;
    this.onCommit();
    if (this.fault === "bug") throw new Error("Told to fail.");
    if (this.fault === "Unknown") await super.commit(write);
    if (this.fault) throw new EngineError(this.fault, "Told to fail.");
    return super.commit(write);
  }
}

interface Chosen {
  readonly hours?: { readonly includeApis: boolean };
  readonly minutes?: { readonly includeApis: boolean };
}

async function open({ hours, minutes }: Chosen, retentionDays?: number) {
  const engine = new TestEngine();
  const clock = { at: AT, now: () => clock.at };
  const accountIds = await openAccountIds(engine, ["a"]);
  const settings = (chosen: Chosen["hours"]): MetricsSettings =>
    chosen
      ? { enabled: true, includeApis: chosen.includeApis, retentionDays: null }
      : { enabled: false, retentionDays: null };
  const logging = { read: false, write: false, delete: false };
  const all = { logging, hourMetrics: settings(hours), minuteMetrics: settings(minutes) };
  const tables: MetricsTables[] = [];
  const stores = () => {
    const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds, clock);
    return { catalog, entities: new EntityStore(engine, catalog, clock) };
  };
  const { entities } = stores();
  const view = new RecordView();
  const find = async (table: string, partitionKey: string, rowKey: string) => {
    try {
      return await entities.get("a", table, partitionKey, rowKey);
    } catch (error) {
      assert.ok(error instanceof ServiceError && error.code === "TableNotFound");
      return undefined;
    }
  };
  return {
    engine,
    commitsToOpen: engine.commits,
    clock,
    find,
    /** Another process over the same data. */
    process() {
      const metrics = new AnalyticsMetrics(clock);
      const errors: unknown[] = [];
      const metricsTables = new MetricsTables({
        ...{ engine, clock, metrics, ...stores() },
        retentionDays: () => retentionDays,
        onError: (error) => errors.push(error),
      });
      tables.push(metricsTables);
      return {
        errors,
        start: () => metricsTables.start(),
        close: () => metricsTables.close(),
        count(requests: readonly Partial<RequestRecord>[]) {
          for (const request of requests) metrics.finished({ ...RECORD, ...request }, all);
        },
      };
    },
    async write() {
      await Promise.all(tables.map((each) => each.write()));
    },
    async row(table: string, partitionKey: string, rowKey: string) {
      const record = await find(table, partitionKey, rowKey);
      assert.ok(record, `${table} has no row ${rowKey} in partition ${partitionKey}.`);
      view.reset(record);
      return (column: string) => {
        const index = view.find(encodeName(column));
        if (index < 0) return undefined;
        return view.typeOf(index) === "Edm.Int64" ? Number(view.bigint(index)) : view.number(index);
      };
    },
  };
}

const OPERATIONS = [
  { operation: "InsertEntity" },
  { operation: "QueryEntity" },
  { operation: "DeleteEntity" },
];

const RECORD: RequestRecord = {
  service: "table",
  operation: "QueryEntity",
  requestId: "id",
  clientRequestId: undefined,
  account: "a",
  verb: "GET",
  path: "/a/T",
  status: 200,
  errorCode: undefined,
  refusedInside: undefined,
  cause: undefined,
  durationMs: 3,
  remoteAddress: "::1",
  caller: "shared-key",
  subject: undefined,
  requestBytes: 20,
  responseBytes: 300,
};
