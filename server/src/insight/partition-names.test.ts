import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { partitionName } from "./partition-names.ts";

describe("The name of a partition", () => {
  it("is account, table and key, for every one of many", () => {
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 50_000; i++) {
        const account = i % 3 === 0 ? "a" : "b";
        const table = i % 2 === 0 ? "Orders" : "Order";
        assert.equal(partitionName(account, table, `s${i}`), `${account}/${table}/s${i}`);
      }
    }
  });

  it("does not take a longer table with a shorter key for the same", () => {
    assert.equal(partitionName("a", "Tab", "leKey"), "a/Tab/leKey");
    assert.equal(partitionName("a", "Table", "Key"), "a/Table/Key");
    assert.equal(partitionName("a", "Table", ""), "a/Table/");
  });

  it("is told of keys longer than are remembered", () => {
    const key = "ü".repeat(512);
    assert.equal(partitionName("a", "T", key), `a/T/${key}`);
  });
});
