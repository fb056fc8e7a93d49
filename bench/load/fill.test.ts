import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { partitionKey, rowKey } from "./dataset.ts";
import { createFill, fillTransactions } from "./fill.ts";
import { RequestWriter, type Target } from "./request-writer.ts";
import { Requests } from "./requests.ts";
import { Client } from "./workload.ts";

const target: Target = { service: "table", host: "h", port: 1, account: "a", keyBase64: "AAAA" };

describe("a fill", () => {
  for (const [order, varied] of [
    ["sorted", false],
    ["scattered", false],
    ["sorted", true],
  ] as const) {
    it(`inserts every entity once and keeps each transaction within one partition, ${order}${varied ? " and varied" : ""}`, () => {
      const dataset = { table: "entities", entities: 40_000, varied };
      const requests = new Requests(new RequestWriter(target), dataset);
      const fill = createFill(requests, dataset, { order, firstTransaction: 0 });
      const keys = new Set<string>();
      for (let i = 0; i < fillTransactions(dataset.entities); i++) {
        const request = String(fill.request(new Client(0, 0)));
        const partitions = new Set<string>();
        for (const [, partition, row] of request.matchAll(KEYS)) {
          keys.add(`${partition}/${row}`);
          partitions.add(`${partition}`);
        }
        assert.equal(partitions.size, 1);
      }
      assert.equal(keys.size, dataset.entities);
      for (let i = 0; i < dataset.entities; i++) {
        assert.ok(keys.has(`${partitionKey(i)}/${rowKey(i, dataset)}`), `entity ${i}`);
      }
    });
  }
});

const KEYS = /"PartitionKey":"([^"]+)","RowKey":"([^"]+)"/g;
