import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Query } from "../wire/query.ts";
import { AnalyticsLog } from "./analytics-log.ts";
import { LOGGED_RECORD } from "./test-record.ts";

const HOUR_MS = 3_600_000;
const HOUR = Date.UTC(2026, 10, 20, 14);

describe("The analytics log", () => {
  it("logs the kinds of requests that its settings enable", () => {
    const methods = ["GET", "HEAD", "PUT", "MERGE", "POST", "COPY", "DELETE"];
    const taken = (kind: "read" | "write" | "delete") => {
      const log = new AnalyticsLog(() => {});
      for (const method of methods) finish(log, { method, wanted: [kind] });
      return log.take().flatMap(({ entries }) => entries).length;
    };
    assert.deepEqual([taken("read"), taken("write"), taken("delete")], [2, 4, 1]);
  });

  it("batches lines by the hour of the request", () => {
    const log = new AnalyticsLog(() => {});
    for (const at of [HOUR, HOUR + HOUR_MS - 1, HOUR + HOUR_MS]) finish(log, { at });
    const taken = log.take().map(({ hour, entries }) => [hour - HOUR, entries.length]);
    assert.deepEqual(taken, [
      [0, 2],
      [HOUR_MS, 1],
    ]);
    assert.deepEqual(log.take(), []);
  });

  it("omits client errors of anonymous requests, and logs those of requests with credentials", () => {
    const log = new AnalyticsLog(() => {});
    finish(log, { caller: "anonymous", status: 404 });
    assert.equal(log.take().length, 0);
    finish(log, { caller: "anonymous", status: 304 });
    finish(log, { caller: "anonymous", status: 500 });
    finish(log, { caller: "anonymous", status: 403, query: "sv=1&sig=x" });
    finish(log, { caller: "anonymous", status: 403, headers: { authorization: "x" } });
    assert.equal(log.take()[0]!.entries.length, 4);
  });

  it("requests writing once when many lines wait, and drops and counts lines that exceed the limit", () => {
    let asked = 0;
    const log = new AnalyticsLog(() => asked++);
    const headers = { "user-agent": "x".repeat(30_000) };
    for (let i = 0; i < 1000; i++) finish(log, { headers });
    assert.equal(asked, 1);
    const entries = log.take().flatMap((batch) => batch.entries);
    const chars = entries.reduce((sum, { line }) => sum + line.length, 0);
    assert.ok(chars > 15 << 20 && chars < 16 << 20, String(chars));
    assert.equal(log.takeDropped(), 1000 - entries.length);
    finish(log, { headers });
    assert.equal(log.takeDropped(), 1, "Lines that are being written still occupy memory.");
    log.written(entries);
    assert.equal(log.isFilled, false);
    finish(log, { headers });
    assert.equal(log.takeDropped(), 0);
  });

  it("keeps lines that could not be written, with the newer ones", () => {
    const log = new AnalyticsLog(() => {});
    finish(log, {});
    const [batch] = log.take();
    finish(log, {});
    log.giveBack(batch!);
    assert.equal(log.take()[0]!.entries.length, 2);
  });
});

interface Finished {
  readonly method?: string;
  readonly at?: number;
  readonly wanted?: readonly string[];
  readonly caller?: "anonymous";
  readonly status?: number;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function finish(log: AnalyticsLog, finished: Finished): void {
  const { method = "GET", at = HOUR, wanted = ["read", "write", "delete"] } = finished;
  const { query = "", headers = {}, caller, status = 200 } = finished;
  const logging = {
    read: wanted.includes("read"),
    write: wanted.includes("write"),
    delete: wanted.includes("delete"),
  };
  const request = {
    account: { name: "sally", keys: [] },
    ...{ method, arrivedAt: at, baseUrl: "", rawPath: "/", rawHeaders: [], version: "" },
    query: new Query(query),
    header: (name: string) => headers[name],
  };
  log.finished({ ...LOGGED_RECORD, status, caller: caller ?? "shared-key" }, { logging }, request, {
    headers: [],
  });
}
