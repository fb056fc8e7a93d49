import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { QueryEvent } from "./recording.ts";
import { random, readAll, record } from "./test-traffic.ts";

describe("A recording", () => {
  it("returns the recorded operations, with any characters in keys and filters", () => {
    const traffic = record();
    const odd = 'a"\\\n\u2028é/\u{1f600}';
    traffic.write(odd, [["merge", odd, '"etag"']]);
    traffic.write("p", [
      ["insert", "r", undefined],
      ["delete", "r", "*"],
    ]);
    traffic.query("PartitionKey eq 'p' and Age gt 5", { read: 7, returned: 3 });
    traffic.query("PartitionKey eq 'p' and RowKey eq 'r'", { read: 1, returned: 1 });
    const [first, second, scan, point] = traffic.events();
    assert.ok(first?.kind === "write" && second?.kind === "write");
    assert.equal(first.partitionKey, odd);
    assert.deepEqual(first.mutations, [{ kind: "merge", rowKey: odd, condition: "exact" }]);
    assert.deepEqual(
      second.mutations.map(({ kind, condition }) => [kind, condition]),
      [
        ["insert", "none"],
        ["delete", "any"],
      ],
    );
    assert.ok(scan?.kind === "query" && point?.kind === "query");
    assert.deepEqual([scan.class, scan.partitionKey, scan.read], ["partition scan", "p", 7]);
    assert.deepEqual([point.class, point.rowKey], ["point query", "r"]);
  });

  it("returns the partition of each query, also if it repeats, and across tables and clients", () => {
    const traffic = record();
    const keys = ["p", "p", "q", "q", "p"];
    for (const [i, key] of keys.entries()) {
      traffic.query(`PartitionKey eq '${key}'`, { read: 1, returned: 1 });
      if (i === 2) traffic.write("w", [["insert", "r", undefined]], "V");
    }
    traffic.query("", { read: 1, returned: 1 });
    traffic.query("PartitionKey eq 'p'", { read: 1, returned: 1, table: "U" });
    traffic.query("PartitionKey eq 'p'", { read: 1, returned: 1, table: "U", client: "::2" });
    traffic.query("PartitionKey eq 'p'", { read: 1, returned: 1 });
    const recorded = traffic.events().map((each) => [each.client, each.table, each.partitionKey]);
    assert.deepEqual(recorded, [
      ...["p", "p", "q"].map((key) => ["::1", "T", key]),
      ["::1", "V", "w"],
      ...["q", "p", undefined].map((key) => ["::1", "T", key]),
      ["::1", "U", "p"],
      ["::2", "U", "p"],
      ["::1", "T", "p"],
    ]);
  });

  it("returns point queries, other queries, writes and refusals in any order", () => {
    const seed = 20_261_122;
    const below = random(seed);
    const traffic = record();
    const expected: Partial<QueryEvent>[] = [];
    for (let i = 0; i < 5_000; i++) {
      traffic.tick(below(3));
      const origin = { table: `T${below(20) >> 4}`, client: `::${below(20) >> 4}` };
      const partitionKey = `p${below(30) >> 4}`;
      const turn = below(40);
      if (turn === 0) traffic.write("p1", [["insert", "r", undefined]]);
      else if (turn === 1) traffic.refuse("/a/T", 404, "TableNotFound");
      else if (turn === 2) {
        const filter = `PartitionKey eq '${partitionKey}' and Age gt ${i}`;
        traffic.query(filter, { ...origin, read: 9, returned: 1, bytes: 7 });
        expected.push({ ...origin, partitionKey, rowKey: undefined, filter, read: 9, bytes: 7 });
      } else {
        const found = below(8) === 0 ? 0 : 1;
        const rowKey = below(50) === 0 ? 'é"' : `row-${below(1e9)}`;
        const bytes = found * [0, 7, 42, 999, 1_000, 9_999, 10_000, 300_000][below(8)]!;
        const spent = { ...origin, projected: below(9) === 0, bytes };
        traffic.query("", { ...spent, read: found, returned: found }, { partitionKey, rowKey });
        expected.push({ ...spent, partitionKey, rowKey, filter: undefined, read: found });
      }
    }
    const queries = traffic.events().filter((event) => event.kind === "query");
    assert.equal(queries.length, expected.length);
    for (const [i, query] of queries.entries()) {
      assert.deepEqual({ ...query, ...expected[i] }, query, `query ${i} of seed ${seed}`);
    }
  });

  it("of format 3 can still be read", () => {
    const lines = [
      '["rowhouse-recording",3]',
      '["o","::1","a","T"]',
      '["q",1000,1,"p","r",null,0,1,1,7]',
      '["q",5,1,0,"s",null,0,1,1,7]',
      '["end",1,0]',
    ];
    const { events, ending } = readAll(`${lines.join("\n")}\n`);
    assert.equal(ending, "whole");
    assert.deepEqual(
      events.map((event) => event.kind === "query" && [event.at, event.partitionKey, event.rowKey]),
      [
        [1000, "p", "r"],
        [1005, "p", "s"],
      ],
    );
  });

  it("stops at its maximum size", () => {
    const traffic = record(100_000);
    for (let i = 0; i < 10_000; i++) traffic.write("partition", [["insert", `r${i}`, undefined]]);
    const text = traffic.text();
    assert.ok(text.length > 100_000 && text.length < 200_000, `${text.length}`);
    assert.equal(readAll(text).ending, "full");
  });

  it("returns whether a query was continued and projected", () => {
    const traffic = record();
    const page = { read: 1000, returned: 1000 };
    traffic.query("Age gt 5", page);
    traffic.query("Age gt 5", { ...page, continued: true, projected: true });
    const recorded = traffic
      .events()
      .map((each) => each.kind === "query" && [each.continued, each.projected]);
    assert.deepEqual(recorded, [
      [false, false],
      [true, true],
    ]);
  });

  it("is readable up to a truncated last line, and rejected if damaged elsewhere, empty or unknown", () => {
    const traffic = record();
    traffic.write("p", [["insert", "r", undefined]]);
    const text = traffic.text();
    const { events, ending } = readAll(text.slice(0, -5));
    assert.deepEqual([events.length, ending], [1, "cut off"]);
    assert.throws(() => readAll(`${text.slice(0, -5)}\n${text}`), /^Error: Line 4 .* is damaged/);
    assert.throws(() => readAll(""), /not a traffic recording/);
    assert.throws(() => readAll("something else"), /not a traffic recording/);
    assert.throws(
      () => readAll('["rowhouse-recording",9]\n'),
      /format 9; formats 3, 4, 5 are supported/,
    );
  });
});
