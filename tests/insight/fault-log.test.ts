import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { EngineError } from "@rowhouse/server/engine/engine";
import type { Observer, RequestRecord } from "@rowhouse/server/wire/observer";
import { pino } from "pino";
import { FaultLog, loggingObserver } from "rowhouse/serve/logs";

const FULL = new EngineError("Unavailable", "no space left on /data");

describe("The log of faults", () => {
  it("reports a full disk with the first refused request, and a minute later how many reports it omitted", () => {
    let now = 0;
    const log = logged(
      (observer) => {
        for (const _ of Array(5)) refuse(observer, FULL);
        now += 60_000;
        refuse(observer, FULL);
        refuse(observer, FULL);
      },
      { now: () => now },
    );
    assert.deepEqual(
      log.map(({ err, omitted }) => [err.message, omitted]),
      [
        ["no space left on /data", undefined],
        ["no space left on /data", 4],
      ],
    );
  });

  it("reports refusals by targets and fault rules, which are intended, once a minute, without a stack", () => {
    const [busy, late] = [new ServiceError("ServerBusy"), new ServiceError("OperationTimedOut")];
    const log = logged((observer) => {
      for (const cause of [busy, busy, busy, late]) refuse(observer, cause);
    });
    assert.deepEqual(
      log.map(({ code, err, level, reason }) => [level, code, reason, err]),
      [
        [WARN, "ServerBusy", busy.message, undefined],
        [WARN, "OperationTimedOut", late.message, undefined],
      ],
    );
  });

  it("reports a different fault immediately, and every fault outside of the storage", () => {
    const bug = new TypeError("x is not a function");
    const log = logged((observer) => {
      for (const cause of [FULL, new EngineError("Unavailable", "no readers left"), bug, bug]) {
        refuse(observer, cause);
      }
    });
    assert.deepEqual(
      log.map(({ err }) => err.message),
      ["no space left on /data", "no readers left", bug.message, bug.message],
    );
  });

  it("reports faults inside a batch, whose answer is 202, but no unimplemented operation", () => {
    const log = logged((observer) => {
      refuse(observer, FULL, { status: 202, errorCode: "InternalError" });
      const missing = new ServiceError("NotImplemented");
      refuse(observer, missing, { status: 501, errorCode: "NotImplemented" });
    });
    assert.deepEqual(
      log.map(({ err }) => err.message),
      ["no space left on /data"],
    );
  });

  it("reports every request at level debug", () => {
    const log = logged(
      (observer) => {
        for (const _ of Array(3)) refuse(observer, FULL);
      },
      { level: "debug" },
    );
    assert.equal(log.length, 3);
  });
});

const WARN = 40;

interface Line {
  readonly level: number;
  readonly code?: string;
  readonly reason?: string;
  readonly err: { readonly message: string };
  readonly omitted?: number;
}

function logged(
  requests: (observer: Observer) => void,
  { now = () => 0, level = "info" }: { now?: () => number; level?: string } = {},
): Line[] {
  const lines: Line[] = [];
  const log = pino({ base: null, level }, { write: (line) => lines.push(JSON.parse(line)) });
  requests(loggingObserver(log, new FaultLog(log, { now })));
  return lines;
}

function refuse(observer: Observer, cause: Error, about: Partial<RequestRecord> = {}): void {
  const record: RequestRecord = {
    service: "table",
    operation: "InsertEntity",
    requestId: "id",
    clientRequestId: undefined,
    account: "devstoreaccount1",
    verb: "POST",
    path: "/devstoreaccount1/People",
    status: 503,
    errorCode: "ServerBusy",
    refusedInside: undefined,
    cause,
    durationMs: 1,
    remoteAddress: "127.0.0.1",
    caller: "shared-key",
    subject: undefined,
    requestBytes: 2,
    responseBytes: 0,
    ...about,
  };
  observer.finished(record, { header: () => undefined, opensConnection: false });
}
