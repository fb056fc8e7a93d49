import assert from "node:assert/strict";
import { it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { explain } from "../query/explain.ts";
import { planQuery } from "../query/planner.ts";
import { AzureTargets } from "./azure-targets.ts";
import { joinInsights, keysRead } from "./insight.ts";
import { PartitionLoad } from "./partition-load.ts";
import { ScanBudget } from "./scan-budget.ts";
import { parseScanRules } from "./scan-budget-rules.ts";

const KEY_LENGTH_MAX = 512;
const BYTES_MAX = 16 * 1024 * 1024;
/** With the heat maps of two weeks. */
const LOAD_BYTES_MAX = 32 * 1024 * 1024;

it("Memory for partitions stays below 32 MiB, for any keys and any number of partitions, after two weeks", async () => {
  const before = await bytesUsed();
  const targets = new AzureTargets("what-if");
  const load = new PartitionLoad({ now: () => 0 });
  const insight = joinInsights([targets, load]);
  const mutations = [{ kind: "insert", rowKey: "r", ifMatch: undefined }] as const;
  for (let i = 0; i < 20_000; i++) {
    // Characters of two bytes, the longest keys, more tables than are followed, and a full heat map.
    const partitionKey = `${i}-`.padEnd(i % 2 === 0 ? KEY_LENGTH_MAX : 90, "ü€");
    const table = `T${i % 400}`.padEnd(63, "x");
    const base = { account: "account", client: "::1", at: i * 60_000 };
    insight.admitWrite({ ...base, table, partitionKey, mutations });
    const plan = planQuery({
      kind: "comparison",
      ...{ property: "PartitionKey", operator: "eq" },
      literal: { type: "Edm.String", value: partitionKey },
    });
    const cost = { entitiesRead: 1, entitiesReturned: 1, bytesRead: 1, engineMicros: 1 };
    const asked = { class: plan.class, filter: undefined, projected: false, continued: false };
    const query = { ...base, table, plan, planText: "", ...asked, ...keysRead(plan) };
    load.queried(query, cost);
  }
  const bytes = (await bytesUsed()) - before;
  assert.ok(bytes > 0 && bytes < LOAD_BYTES_MAX, `${bytes} bytes`);
  assert.ok(load.report().followed > 0 && targets.report().requests > 0);
});

it("Memory for queries stays below 16 MiB, however long the keys in their filters", async () => {
  const before = await bytesUsed();
  const targets = new AzureTargets("what-if");
  const load = new PartitionLoad({ now: () => 0 });
  const insight = joinInsights([targets, load]);
  const plan = planQuery(undefined);
  const base = { account: "a", table: "T", client: "::1", at: 0, plan, planText: "" };
  const asked = { ...base, class: plan.class, filter: undefined, projected: false };
  const cost = { entitiesRead: 0, entitiesReturned: 0, bytesRead: 0, engineMicros: 1 };
  for (let i = 0; i < 640; i++) {
    const partitionKey = "x".repeat(60_000) + i;
    const query = { ...asked, partitionKey, rowKey: undefined, continued: false };
    insight.admitQuery(query);
    insight.queried(query, cost);
  }
  const bytes = (await bytesUsed()) - before;
  assert.ok(bytes > 0 && bytes < BYTES_MAX, `${bytes} bytes`);
  assert.equal(targets.report().requests, 640);
  assert.ok(load.report().loadAcrossPartitions > 0);
});

it("Memory for queries over budget stays below 16 MiB, however long their filters", async () => {
  const before = await bytesUsed();
  const budget = new ScanBudget(parseScanRules("no table scan"));
  const cost = { entitiesRead: 1, entitiesReturned: 1, bytesRead: 1, engineMicros: 1 };
  for (let i = 0; i < 600; i++) {
    const property = `P${i}`.padEnd(255, "x");
    const filter = new Array(120).fill(`${property} eq 'é'`).join(" or ");
    const plan = planQuery(parseFilter(filter));
    const asked = { at: 0, account: "a", table: "T", client: "::1", plan, planText: explain(plan) };
    budget.queried(
      {
        ...asked,
        ...keysRead(plan),
        filter,
        projected: false,
        continued: false,
        class: plan.class,
      },
      cost,
    );
  }
  const bytes = (await bytesUsed()) - before;
  assert.ok(bytes > 0 && bytes < BYTES_MAX, `${bytes} bytes`);
  assert.equal(budget.summary().overruns.length, 500);
});

/** Collects until nothing more is freed: a single collection sometimes leaves a few MiB of garbage. */
async function bytesUsed(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  assert.ok(typeof collect === "function");
  for (let least = Number.POSITIVE_INFINITY; ; ) {
    await nextTurn();
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    const used = heapUsed + arrayBuffers;
    if (used > least - 65_536) return Math.min(used, least);
    least = used;
  }
}
