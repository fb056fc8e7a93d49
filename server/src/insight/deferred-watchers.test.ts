import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { planQuery } from "../query/planner.ts";
import { DeferredWatchers } from "./deferred-watchers.ts";
import { keysRead, type QueryFacts } from "./insight.ts";

describe("Deferred watchers", () => {
  it("are told of everything in the order in which it happened, when it is asked for", () => {
    const { deferred, told } = watch();
    deferred.admitQuery(query(1));
    deferred.admitQuery(query(2));
    deferred.queried(query(2), COST);
    deferred.queried(query(1), COST);
    assert.deepEqual(told, []);
    deferred.drain();
    assert.deepEqual(told, ["admit 1", "admit 2", "queried 2", "queried 1"]);
    deferred.drain();
    assert.equal(told.length, 4);
  });

  it("are told of a query that ends before the next begins as of any other", () => {
    const { deferred, told } = watch();
    for (let i = 0; i < 40; i++) {
      deferred.admitQuery(query(i));
      deferred.queried(lastQuery, COST);
    }
    deferred.drain();
    const expected = Array.from({ length: 40 }, (_, i) => [`admit ${i}`, `queried ${i}`]).flat();
    assert.deepEqual(told, expected);
  });

  it("hear of a write at once, behind the queries before it", () => {
    const { deferred, told } = watch();
    deferred.queried(query(1), COST);
    const base = { at: 2, account: "a", table: "T", client: "::1" };
    deferred.admitWrite({ ...base, partitionKey: "p", mutations: [] });
    assert.deepEqual(told, ["queried 1", "write 2"]);
  });

  it("are kept waiting by no more than a few queries, and by none with a long filter", () => {
    const { deferred, told } = watch();
    for (let i = 0; i < 100; i++) deferred.queried(query(i), COST);
    assert.ok(told.length >= 36, `${told.length}`);
    deferred.queried(query(100, `Name eq '${"x".repeat(2000)}'`), COST);
    assert.deepEqual(
      told,
      Array.from({ length: 101 }, (_, i) => `queried ${i}`),
    );
  });
});

const COST = { entitiesRead: 1, entitiesReturned: 1, bytesRead: 1, engineMicros: 1 };

function query(at: number, filter = "Age eq 1"): QueryFacts {
  const plan = planQuery(parseFilter(filter));
  const base = { account: "a", table: "T", client: "::1", planText: "", projected: false };
  lastQuery = { ...base, at, plan, ...keysRead(plan), filter, partitionName: "" };
  return lastQuery;
}

let lastQuery: QueryFacts;

function watch() {
  const told: string[] = [];
  const deferred = new DeferredWatchers([
    {
      admitQuery: ({ at }) => told.push(`admit ${at}`),
      queried: ({ at }) => told.push(`queried ${at}`),
      admitWrite: ({ at }) => told.push(`write ${at}`),
    },
  ]);
  return { deferred, told };
}
