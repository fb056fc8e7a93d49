import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { encodeName } from "@rowhouse/protocol/property-name";
import { openAccountIds } from "../catalog/account-ids.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { AtomicWrite, CommitResult } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import type { RequestRecord } from "../http/observer.ts";
import { Analytics, type MetricsSettings } from "../insight/analytics.ts";
import { EntityStore, type TableValue } from "./entity-store.ts";
import { MetricsTables } from "./metrics-tables.ts";
import { RecordView } from "./record-view.ts";

const AT = Date.UTC(2026, 10, 20, 14, 5, 30);
const HOUR = "20261120T1400";
const HOURS = "$MetricsHourPrimaryTransactionsTable";
const MINUTES = "$MetricsMinutePrimaryTransactionsTable";
const DAY_MS = 86_400_000;

describe("The metrics tables", () => {
  it("hold a row for all requests of an hour and one for each operation, as chosen", async () => {
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

  it("leave operations out where they are not asked for, and count minutes by themselves", async () => {
    const lab = await open({ minutes: { includeApis: false } });
    lab.process().count([{ operation: "InsertEntity" }]);
    await lab.write();
    assert.ok(await lab.find(MINUTES, "20261120T1405", "user;All"));
    assert.equal(await lab.find(MINUTES, "20261120T1405", "user;InsertEntity"), undefined);
    assert.equal(await lab.find(HOURS, HOUR, "user;All"), undefined);
  });

  it("add to what stands there, of whichever process", async () => {
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

  it("tell callers and ends of requests apart", async () => {
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

  it("keep rows as long as the retention says", async () => {
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

  it("count nothing of accounts that chose nothing, and write nothing then", async () => {
    const lab = await open({});
    lab.process().count([{}]);
    const before = lab.engine.commits;
    await lab.write();
    assert.equal(lab.engine.commits, before);
  });

  it("count on with what could not be written", async () => {
    const lab = await open({ hours: { includeApis: false } });
    const process = lab.process();
    process.count([{}]);
    lab.engine.fails = true;
    await assert.rejects(lab.write());
    lab.engine.fails = false;
    process.count([{}]);
    await lab.write();
    assert.equal((await lab.row(HOURS, HOUR, "user;All"))("TotalRequests"), 2);
  });
});

/** A memory that can be made to fail. */
class TestEngine extends MemoryEngine {
  fails = false;
  commits = 0;

  override commit(write: AtomicWrite): Promise<CommitResult> {
    this.commits++;
    return this.fails ? Promise.reject(new Error("The disk is full.")) : super.commit(write);
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
    const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds);
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
    clock,
    find,
    /** One more process over the same data. */
    process() {
      const analytics = new Analytics(clock);
      tables.push(
        new MetricsTables({
          ...{ engine, clock, analytics, ...stores(), onError: assert.ifError },
          retentionDays: () => retentionDays,
        }),
      );
      return {
        count(requests: readonly Partial<RequestRecord>[]) {
          for (const request of requests) analytics.finished({ ...RECORD, ...request }, all);
        },
      };
    },
    async write() {
      await Promise.all(tables.map((each) => each.write()));
    },
    async row(table: string, partitionKey: string, rowKey: string) {
      const record = await find(table, partitionKey, rowKey);
      assert.ok(record, `${table} has no ${rowKey} of ${partitionKey}.`);
      view.reset(record);
      return (column: string) => {
        const index = view.find(encodeName(column));
        if (index < 0) return undefined;
        return view.typeOf(index) === "Edm.Int64" ? Number(view.bigint(index)) : view.number(index);
      };
    },
  };
}

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
  cause: undefined,
  durationMs: 3,
  remoteAddress: "::1",
  caller: "shared-key",
  requestBytes: 20,
  responseBytes: 300,
};
