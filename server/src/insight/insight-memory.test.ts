import assert from "node:assert/strict";
import { it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { AzureTargets } from "./azure-targets.ts";
import { DeferredWatchers } from "./deferred-watchers.ts";
import { PartitionLoad } from "./partition-load.ts";

const KEY_LENGTH_MAX = 512;
const BYTES_MAX = 16 * 1024 * 1024;

it("What is kept of partitions stays below 16 MiB, whatever their keys and however many", () => {
  const before = bytesUsed();
  const targets = new AzureTargets("what-if");
  const load = new PartitionLoad({ now: () => 0 });
  const insight = new DeferredWatchers([targets, load]);
  const mutations = [{ kind: "insert", rowKey: "r", ifMatch: undefined }] as const;
  for (let i = 0; i < 60_000; i++) {
    // Characters of two bytes, the longest keys, more tables than are followed, all of the heat map.
    const partitionKey = `${i}-`.padEnd(i % 2 === 0 ? KEY_LENGTH_MAX : 90, "ü€");
    const table = `T${i % 400}`.padEnd(63, "x");
    const base = { account: "account", client: "::1", at: i * 20 };
    insight.admitWrite({ ...base, table, partitionKey, mutations });
  }
  const bytes = bytesUsed() - before;
  assert.ok(bytes > 0 && bytes < BYTES_MAX, `${bytes} bytes`);
  assert.ok(load.report().followed > 0 && targets.report().requests > 0);
});

function bytesUsed(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  assert.ok(typeof collect === "function");
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
