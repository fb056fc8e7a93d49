import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { record } from "../test-traffic.ts";
import type { EntitySample } from "./rule.ts";

/** Each threshold of the table of rules in `docs/manual/insight.md`, and the value next to it. */
describe("The threshold in the manual holds for the rule", () => {
  const KEYS = "PartitionKey eq 'p'";
  const point = (rowKey: string) => ({ partitionKey: "p", rowKey });

  it("scan", () => {
    const found = (times: number, read: number, returned: number) => {
      const traffic = record();
      for (let i = 0; i < times; i++) traffic.query("Email eq 'a'", { read, returned });
      return traffic.rules().includes("scan");
    };
    assert.deepEqual([found(3, 34, 3), found(3, 33, 3), found(2, 51, 3)], [true, false, false]);
    assert.deepEqual([found(3, 100, 9), found(3, 100, 10)], [true, false]);
  });

  it("bulk-reads", () => {
    const found = (times: number, read: number, returned: number) => {
      const traffic = record();
      for (let i = 0; i < times; i++) {
        traffic.query("", { read, returned });
        traffic.tick(10_000);
      }
      return traffic.rules().includes("bulk-reads");
    };
    assert.deepEqual([found(3, 1000, 100), found(3, 1000, 99)], [true, false]);
    assert.deepEqual([found(2, 1000, 1000), found(3, 999, 999)], [false, false]);
  });

  it("wide-answers", () => {
    const found = (returned: number, bytesEach: number) => {
      const traffic = record();
      traffic.query(KEYS, { read: returned, returned, bytes: returned * bytesEach });
      return traffic.rules().includes("wide-answers");
    };
    assert.deepEqual([found(100, 8192), found(99, 8192), found(100, 8191)], [true, false, false]);
  });

  it("large-values", () => {
    const found = (all: number, large: number, bytes: number) => {
      const samples = Array.from(
        { length: all },
        (_, i): EntitySample => ({
          ...{ partitionKey: "p", rowKey: `r${i}`, properties: 1, numeric: false },
          bytes: i < large ? bytes : 100,
        }),
      );
      const traffic = record();
      traffic.write("p", [["insert", "r", undefined]]);
      const data = { entities: all, samples, onlyPartition: undefined };
      return traffic.rules(new Map([["a/T", data]])).includes("large-values");
    };
    assert.deepEqual([found(10, 1, 131_073), found(10, 1, 131_072)], [true, false]);
    assert.equal(found(11, 1, 131_073), false);
  });

  it("n-plus-one", () => {
    const found = (lists: number, points: number, { ms = 0, alone = 0 } = {}) => {
      const traffic = record();
      for (let i = 0; i < lists + alone; i++) {
        traffic.query(KEYS, { read: 5, returned: 5 });
        traffic.tick(ms);
        for (let k = 0; k < points && i < lists; k++) {
          const spent = { read: 1, returned: 1, table: "Products" };
          traffic.query("", spent, point(`r${k}`));
        }
        traffic.tick(10_000);
      }
      return traffic.rules().includes("n-plus-one");
    };
    assert.deepEqual([found(3, 5), found(2, 5)], [true, false]);
    assert.deepEqual(
      [3, 4, 10, 11].map((points) => found(3, points)),
      [false, true, true, false],
    );
    assert.deepEqual([found(3, 5, { ms: 2000 }), found(3, 5, { ms: 2001 })], [true, false]);
    assert.deepEqual([found(3, 5, { alone: 3 }), found(3, 5, { alone: 4 })], [true, false]);
  });

  it("series-as-entities", () => {
    const sampled = { count: 20, properties: 2, numeric: true, odd: 0, rowKey: "r" };
    const found = (times: number, returned: number, read = returned, more = {}) => {
      const { count, properties, numeric, odd, rowKey } = { ...sampled, ...more };
      const traffic = record();
      for (let i = 0; i < times; i++) traffic.query(KEYS, { read, returned });
      const samples = Array.from(
        { length: count },
        (_, i): EntitySample => ({
          ...{ partitionKey: "p", bytes: 50, properties, numeric },
          rowKey: rowKey === "r" ? `${i < odd ? "x" : "r"}${i + 10}` : rowKey,
        }),
      );
      const data = { entities: count, samples, onlyPartition: "p" };
      return traffic.rules(new Map([["a/T", data]])).includes("series-as-entities");
    };
    assert.deepEqual([found(3, 12), found(3, 11), found(2, 12)], [true, false, false]);
    assert.deepEqual([found(3, 18, 20), found(3, 17, 20)], [true, false]);
    for (const [more, expected] of [
      [{ count: 12 }, true],
      [{ count: 11 }, false],
      [{ properties: 3 }, false],
      [{ numeric: false }, false],
      [{ odd: 4 }, true],
      [{ odd: 5 }, false],
      [{ rowKey: "same" }, false],
    ] as const) {
      assert.equal(found(3, 12, 12, more), expected, JSON.stringify(more));
    }
  });

  it("read-before-write", () => {
    const found = (after: number, alone: number, ms = 0) => {
      const traffic = record();
      for (let i = 0; i < after + alone; i++) {
        if (i < after) traffic.query("", { read: 1, returned: 1 }, point(`r${i}`));
        traffic.tick(ms);
        traffic.write("p", [["merge", `r${i}`, undefined]]);
        traffic.tick(200);
      }
      return traffic.rules().includes("read-before-write");
    };
    assert.deepEqual([found(5, 0), found(4, 0)], [true, false]);
    assert.deepEqual([found(5, 5), found(5, 6)], [true, false]);
    assert.deepEqual([found(5, 0, 5000), found(5, 0, 5001)], [true, false]);
  });

  it("one-partition", () => {
    const found = (inserts: number, key = "p") => {
      const traffic = record();
      for (let i = 0; i < inserts; i++) {
        traffic.write(key, [["insert", `r${i}`, undefined]]);
        traffic.tick(200);
      }
      const data = { entities: 1000, samples: [], onlyPartition: key };
      return traffic.rules(new Map([["a/T", data]])).includes("one-partition");
    };
    assert.deepEqual([found(64), found(63)], [true, false]);
    // Recordings in these tests begin on this day; the next day has another partition.
    assert.equal(found(70, "19700112"), false);
  });

  it("single-writes", () => {
    const found = (runs: number, length: number, gapMs = 0) => {
      const traffic = record();
      for (let run = 0; run < runs; run++) {
        for (let i = 0; i < length; i++) {
          traffic.write("p", [["insert", `r${run}-${i}`, undefined]]);
          if (i < length - 1) traffic.tick(gapMs);
        }
        traffic.tick(10_000);
      }
      return traffic.rules().includes("single-writes");
    };
    assert.deepEqual([found(3, 10), found(3, 9), found(2, 24)], [true, false, false]);
    assert.deepEqual([found(1, 50), found(1, 49)], [true, false]);
    assert.deepEqual([found(1, 50, 99), found(1, 50, 100)], [true, false]);
  });

  it("retries", () => {
    const found = (times: number, status: number, everyMs: number) => {
      const traffic = record();
      for (let i = 0; i <= times; i++) {
        traffic.refuse("/a/T(PartitionKey='p',RowKey='r')", status, "Code");
        traffic.tick(everyMs);
      }
      return traffic.rules().includes("retries");
    };
    assert.deepEqual([found(3, 503, 100), found(2, 503, 100)], [true, false]);
    assert.equal(found(3, 503, 101), false);
    assert.deepEqual([found(3, 403, 10_000), found(3, 403, 10_001)], [true, false]);
  });
});
