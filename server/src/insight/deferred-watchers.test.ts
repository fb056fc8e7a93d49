import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { planQuery } from "../query/planner.ts";
import { DeferredWatchers } from "./deferred-watchers.ts";
import { keysRead, type QueryFacts } from "./insight.ts";

describe("Deferred watchers", () => {
  it("receive queries on drain, once, in the order in which they ended", () => {
    const { deferred, calls } = watch();
    for (let i = 0; i < 40; i++) {
      deferred.admitQuery(query(i));
      deferred.queried(lastQuery, COST);
    }
    assert.deepEqual(calls, []);
    deferred.drain();
    const expected = Array.from({ length: 40 }, (_, i) => `ran ${i}`);
    assert.deepEqual(calls, expected);
    deferred.drain();
    assert.deepEqual(calls, expected);
  });

  it("receive the beginning of a query separately if another operation begins or ends during it", () => {
    const { deferred, calls } = watch();
    const [first, second, third, fourth] = [query(1), query(2), query(3), query(4)];
    deferred.admitQuery(first);
    deferred.admitQuery(second);
    deferred.queried(second, COST);
    deferred.queried(first, COST);
    deferred.admitQuery(third);
    deferred.admitWrite({ ...BASE, at: 5, partitionKey: "p", mutations: [] });
    deferred.queried(third, COST);
    deferred.admitQuery(fourth);
    deferred.drain();
    assert.deepEqual(calls, [
      ...["admit 1", "ran 2", "queried 1", "admit 3", "write 5"],
      ...["queried 3", "admit 4"],
    ]);
  });

  it("without admitQuery receive only the ends of queries", () => {
    const ended: string[] = [];
    const deferred = new DeferredWatchers([
      { ranQueries: (batch) => ended.push(`${batch.count} at ${batch.at(0)}`) },
    ]);
    const first = query(1);
    deferred.admitQuery(first);
    deferred.admitQuery(query(2));
    deferred.queried(first, COST);
    deferred.drain();
    assert.deepEqual(ended, ["1 at 1"]);
  });

  it("receive batches whose rows match the facts and costs of the queries", () => {
    const cost = { entitiesRead: 7, entitiesReturned: 3, bytesRead: 900, engineMicros: 12 };
    const seen: unknown[] = [];
    const deferred = new DeferredWatchers([
      {
        ranQueries(batch) {
          for (let i = 0; i < batch.count; i++) {
            const asked = [batch.account(i), batch.client(i), batch.planClass(i)];
            seen.push([...asked, batch.partition(i), batch.rowKey(i), batch.isPlain(i)]);
            assert.deepEqual(batch.cost(i), cost);
          }
        },
      },
    ]);
    const byAddress = query(1, "PartitionKey eq 'p' and RowKey eq 'r'");
    const queries = [byAddress, { ...byAddress, filter: undefined }, query(3)];
    for (const each of queries) deferred.queried(each, cost);
    deferred.drain();
    assert.deepEqual(seen, [
      ["a", "::1", 1, "a/T/p", "r", false],
      ["a", "::1", 1, "a/T/p", "r", true],
      ["a", "::1", 5, undefined, undefined, false],
    ]);
  });

  it("receive a write immediately, after the queries before it", () => {
    const { deferred, calls } = watch();
    deferred.admitQuery(query(1));
    deferred.queried(lastQuery, COST);
    deferred.admitWrite({ ...BASE, at: 2, partitionKey: "p", mutations: [] });
    assert.deepEqual(calls, ["ran 1", "write 2"]);
  });

  it("receive queries once 64 wait, and immediately if a filter is long", () => {
    const { deferred, calls } = watch();
    for (let i = 0; i < 100; i++) deferred.queried(query(i), COST);
    assert.ok(calls.length >= 36, `${calls.length}`);
    deferred.queried(query(100, `Name eq '${"x".repeat(2000)}'`), COST);
    assert.deepEqual(
      calls,
      Array.from({ length: 101 }, (_, i) => `queried ${i}`),
    );
  });
});

const BASE = { account: "a", table: "T", client: "::1" };
const COST = { entitiesRead: 1, entitiesReturned: 1, bytesRead: 1, engineMicros: 1 };

function query(at: number, filter = "Age eq 1"): QueryFacts {
  const plan = planQuery(parseFilter(filter));
  lastQuery = {
    ...BASE,
    planText: "",
    projected: false,
    continued: false,
    class: plan.class,
    at,
    plan,
    ...keysRead(plan),
    filter,
  };
  return lastQuery;
}

let lastQuery: QueryFacts;

function watch() {
  const calls: string[] = [];
  const deferred = new DeferredWatchers([
    {
      admitQuery: ({ at }) => calls.push(`admit ${at}`),
      ranQueries(batch) {
        for (let i = 0; i < batch.count; i++) {
          calls.push(`${batch.wasAdmitted(i) ? "queried" : "ran"} ${batch.at(i)}`);
        }
      },
      admitWrite: ({ at }) => calls.push(`write ${at}`),
    },
  ]);
  return { deferred, calls };
}
