import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { partitionName } from "./partition-names.ts";

describe("The name of a partition", () => {
  it("consists of account, table and key, for each of 50,000 partitions", () => {
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 50_000; i++) {
        const account = i % 3 === 0 ? "a" : "b";
        const table = i % 2 === 0 ? "Orders" : "Order";
        assert.equal(partitionName(account, table, `s${i}`), `${account}/${table}/s${i}`);
      }
    }
  });

  it("distinguishes a longer table name with a shorter key", () => {
    assert.equal(partitionName("a", "Tab", "leKey"), "a/Tab/leKey");
    assert.equal(partitionName("a", "Table", "Key"), "a/Table/Key");
    assert.equal(partitionName("a", "Table", ""), "a/Table/");
  });

  it("is right for keys too long to be cached", () => {
    const key = "ü".repeat(512);
    assert.equal(partitionName("a", "T", key), `a/T/${key}`);
  });
});
