import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { explain } from "../query/explain.ts";
import { planQuery } from "../query/planner.ts";
import { AccountWatch } from "./account-watch.ts";
import { durationOf, joinActivities } from "./activity.ts";
import { advise } from "./advice/advise.ts";
import { joinRecordings } from "./advice/join-recordings.ts";
import { keysRead } from "./insight.ts";
import { LOGGED_RECORD } from "./test-record.ts";

describe("What is watched of an account", () => {
  it("counts requests by operation, error and duration, entities, and the flushes they shared", () => {
    const { watch, at, query, finish } = watching();
    finish("QueryEntities", 200, 3);
    finish("InsertEntity", 409, 0.2, "EntityAlreadyExists");
    query("Age gt 1", 100, 5);
    watch.admitWrite(writeOf(at.now));
    at.commits = 6;
    at.flushes = 2;
    const [slot] = watch.activity("a")!.slots;
    assert.equal(slot!.requests, 2);
    assert.deepEqual(slot!.operations, { QueryEntities: 1, InsertEntity: 1 });
    assert.deepEqual(slot!.errors, { EntityAlreadyExists: 1 });
    assert.deepEqual(
      [
        slot!.entitiesRead,
        slot!.entitiesReturned,
        slot!.entitiesWritten,
        slot!.commits,
        slot!.flushes,
      ],
      [100, 5, 1, 6, 2],
    );
    const steps = slot!.durations.flatMap((count, step) => (count > 0 ? [step] : []));
    assert.ok(durationOf(steps[0]!) <= 200 && durationOf(steps[0]! + 1) > 200);
    assert.ok(durationOf(steps[1]!) <= 3000 && durationOf(steps[1]! + 1) > 3000);
  });

  it("keeps each kind of query once, with its most costly page, for an hour", () => {
    const { watch, at, query } = watching();
    for (let i = 0; i < 50; i++) query(`Age gt ${i}`, 100 + i, 1);
    query("Name eq 'x'", 20, 1);
    for (let i = 0; i < 100; i++) query(`P${i} eq 1`, 30, 1);
    const { widest } = watch.activity("a")!;
    assert.equal(widest.length, 20);
    assert.deepEqual(
      [widest[0]!.shape, widest[0]!.filter, widest[0]!.entitiesRead],
      ["Age gt ?", "Age gt 49", 149],
    );
    assert.ok(!widest.some(({ shape }) => shape === "Name eq ?"));
    at.now += 3_600_001;
    assert.deepEqual(watch.activity("a")!.widest, []);
    query("Name eq 'y'", 1, 1);
    assert.equal(watch.activity("a")!.widest.length, 1);
  });

  it("keeps the last traffic as recordings that can be advised on, and little memory", () => {
    const { watch, query } = watching();
    const filter = `Email eq '${"x".repeat(2000)}'`;
    for (let i = 0; i < 5000; i++) query(filter, 500, 1);
    const recordings = watch.recordings("a");
    assert.equal(recordings.length, 2);
    const bytes = recordings.join("").length;
    assert.ok(bytes > 2_000_000 && bytes < 4_500_000, `${bytes}`);
    const advice = advise(joinRecordings(recordings.map((text) => text.split("\n"))));
    assert.equal(advice.recording, "whole");
    assert.ok(advice.findings.some(({ rule, table }) => rule === "scan" && table === "a/T"));
    // It goes on.
    query(filter, 500, 1);
    assert.ok(
      advise(joinRecordings(watch.recordings("a").map((text) => text.split("\n")))).events >
        advice.events,
    );
  });

  it("tells accounts apart, and forgets those beyond the eighth and those that only strangers name", () => {
    const { watch, query, finish } = watching();
    for (let i = 0; i < 10; i++) query("Age gt 1", 1, 1, `account${i}`);
    assert.equal(watch.activity("account7")!.slots[0]!.entitiesRead, 1);
    assert.equal(watch.activity("account8"), undefined);
    assert.deepEqual(watch.recordings("account8"), []);
    const other = watching();
    other.finish("QueryEntities", 403, 1, "AuthenticationFailed");
    assert.equal(other.watch.activity("a"), undefined);
    finish("QueryEntities", 200, 1);
  });

  it("joins what several processes counted", () => {
    const [one, two] = [watching(), watching()];
    for (const { finish } of [one, two]) finish("QueryEntities", 200, 1);
    two.at.now += 60_000;
    two.finish("QueryEntities", 200, 1);
    const joined = joinActivities([one.watch.activity("a")!, two.watch.activity("a")!]);
    assert.deepEqual(
      joined.slots.map(({ requests }) => requests),
      [2, 1],
    );
    assert.equal(one.watch.activity("a")!.slots[0]!.requests, 1);
  });
});

function writeOf(at: number) {
  const mutations = [{ kind: "insert", rowKey: "r", ifMatch: undefined }] as const;
  return { at, account: "a", table: "T", partitionKey: "p", mutations, client: "::1" };
}

function watching() {
  const at = { now: 1_000_000, flushes: 0, commits: 0 };
  const watch = new AccountWatch({ now: () => at.now }, () => ({ ...at }));
  return {
    watch,
    at,
    query(filter: string, entitiesRead: number, entitiesReturned: number, account = "a") {
      const plan = planQuery(parseFilter(filter));
      const asked = { at: at.now, account, table: "T", plan, planText: explain(plan), filter };
      const flags = { projected: false, continued: false, class: plan.class, client: "::1" };
      const cost = { entitiesRead, entitiesReturned, bytesRead: 1, engineMicros: entitiesRead };
      watch.queried({ ...asked, ...keysRead(plan), ...flags }, cost);
    },
    finish(operation: string, status: number, durationMs: number, errorCode?: string) {
      const record = {
        ...LOGGED_RECORD,
        service: "table" as const,
        account: "a",
        operation,
        status,
        durationMs,
        errorCode,
      };
      watch.finished(record, { opensConnection: false, header: () => undefined });
    },
  };
}
