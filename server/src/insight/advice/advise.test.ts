import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { random, record } from "../test-traffic.ts";
import { adviceSarif, printAdvice } from "./print-advice.ts";
import type { EntitySample, TableData } from "./rule.ts";

describe("Advice", () => {
  it("is silent about an empty recording, and says that it cannot judge", () => {
    const { findings, lines } = record().advice();
    assert.deepEqual(findings, []);
    assert.ok(lines.every(({ verdict }) => verdict === "cannot judge"));
  });

  it("sees runs of single writes into one partition, and not transactions", () => {
    const traffic = record();
    for (let i = 0; i < 60; i++) traffic.write("p", [["insert", `r${i}`, undefined]]);
    assert.deepEqual(traffic.rules(), ["single-writes"]);
    const batched = record();
    const batch = Array.from({ length: 60 }, (_, i) => ["insert", `r${i}`, undefined] as const);
    batched.write("p", batch);
    assert.deepEqual(batched.rules(), []);
  });

  it("takes no transactions, and no writes of other tables, for single writes of one run", () => {
    const small = record();
    for (let i = 0; i < 60; i++) {
      const pair = [`a${i}`, `b${i}`].map((row) => ["insert", row, undefined] as const);
      small.write("p", pair);
    }
    assert.deepEqual(small.rules(), []);
    const tables = record();
    for (let i = 0; i < 60; i++) tables.write("p", [["insert", `r${i}`, undefined]], `T${i % 2}`);
    assert.deepEqual(tables.rules(), []);
  });

  it("takes neither removals nor updates for inserts of a table that grows", () => {
    for (const [kind, ifMatch] of [
      ["delete", "*"],
      ["merge", '"etag"'],
    ] as const) {
      const traffic = record();
      for (let i = 0; i < 200; i++) {
        traffic.write(`p${String(i).padStart(4, "0")}`, [[kind, "r", ifMatch]]);
        traffic.tick(200);
      }
      assert.deepEqual(traffic.rules(), [], kind);
    }
  });

  it("sees partitions that are opened one behind the other, and those before one another", () => {
    for (const keyOf of [(i: number) => 1000 + i, (i: number) => 9000 - i]) {
      const traffic = record();
      for (let i = 0; i < 200; i++) {
        traffic.write(`p${keyOf(i)}`, [["insert", "r", undefined]]);
        traffic.tick(200);
      }
      assert.deepEqual(traffic.rules(), ["append-only-keys"]);
    }
  });

  it("counts the transactions of each partition by themselves", () => {
    const traffic = record();
    for (let i = 0; i < 4 * 101; i++) {
      traffic.write(`p${Math.floor(i / 101)}`, [["insert", `r${i}`, undefined]]);
    }
    const [single] = traffic.advice().findings;
    assert.equal(single?.rule, "single-writes");
    assert.equal(single.cost, "404 requests and flushes; 8 transactions would do.");
  });

  it("takes no writes for a run that people or devices send one by one", () => {
    const traffic = record();
    for (let i = 0; i < 60; i++) {
      traffic.write("room", [["insert", `r${i}`, undefined]]);
      traffic.tick(150);
    }
    assert.deepEqual(traffic.rules(), []);
  });

  it("sees a table that grows in one partition by the day, and one that is a single partition", () => {
    const found = (keys: readonly string[], entities: number, onlyPartition?: string) => {
      const traffic = record();
      for (let i = 0; i < 70; i++) {
        traffic.write(keys[i % keys.length]!, [["insert", `r${i}`, undefined]]);
        traffic.tick(200);
      }
      return traffic.rules(new Map([["a/T", { entities, samples: [], onlyPartition }]]));
    };
    assert.deepEqual(found(["p"], 1000, "p"), ["one-partition"]);
    assert.deepEqual(found(["p"], 999, "p"), []);
    assert.deepEqual(found(["p"], 1000), []);
    assert.deepEqual(found(["p", "q"], 1000, "p"), []);
    // This key is the day on which recordings in these tests begin.
    assert.deepEqual(found(["19700112"], 1000), ["append-only-keys"]);
  });

  it("does not ask for transactions of one entity written again and again: they hold each once", () => {
    const traffic = record();
    for (let i = 0; i < 200; i++) traffic.write("p", [["merge", "counter", '"etag"']]);
    assert.deepEqual(traffic.rules(), []);
  });

  it("does not count the pages of a query that was asked once as so many queries", () => {
    const page = { read: 1000, returned: 10 };
    const pages = (queries: number) => {
      const traffic = record();
      for (let i = 0; i < queries; i++) {
        for (let k = 0; k < 100; k++) {
          traffic.query("Age gt 5", { ...page, continued: k > 0 });
          traffic.tick(1000);
        }
      }
      return traffic.advice().findings;
    };
    assert.deepEqual(pages(2), []);
    const [scan] = pages(3);
    assert.equal(scan?.rule, "scan");
    assert.match(scan.cost, /^100000 entities a query/);
  });

  it("sees lists that are followed by a point query for each entity, and no others", () => {
    const point = (traffic: ReturnType<typeof record>, i: number) =>
      traffic.query(...(["", { read: 1, returned: 1, table: "Products" }] as const), {
        partitionKey: "all",
        rowKey: `r${i % 7}`,
      });
    const list = (traffic: ReturnType<typeof record>) =>
      traffic.query("PartitionKey eq 'p'", { read: 5, returned: 5 });
    const followed = record();
    for (let i = 0; i < 40; i++) {
      if (i % 8 === 0) list(followed);
      else if (i % 8 < 6) point(followed, i);
      followed.tick(10);
    }
    assert.deepEqual(followed.rules(), ["n-plus-one"]);
    for (const pointsPerList of [2, 3, 4, 5, 7, 10, 20]) {
      const below = random(pointsPerList);
      const mixed = record();
      for (let i = 0; i < 3000; i++) {
        if (below(pointsPerList + 1) === 0) list(mixed);
        else point(mixed, i);
        mixed.tick(10);
      }
      assert.deepEqual(mixed.rules(), [], `${pointsPerList} point queries for each list`);
    }
  });

  it("writes a long series out as entities that hold as many properties as they may", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.query("PartitionKey eq 'p'", { read: 1000, returned: 1000 });
      traffic.query("PartitionKey eq 'p'", { read: 440, returned: 440, continued: true });
      traffic.tick(10_000);
    }
    const samples: EntitySample[] = Array.from({ length: 100 }, (_, i) => ({
      ...{ partitionKey: "p", rowKey: String(i).padStart(4, "0") },
      ...{ bytes: 50, properties: 1, numeric: true },
    }));
    const data = new Map([["a/T", { entities: 1440, samples, onlyPartition: "p" }]]);
    const series = traffic.advice(data).findings.find(({ rule }) => rule === "series-as-entities");
    assert.equal(series?.title, "A series of 1440 values is read as 1440 entities");
    assert.match(series.cost, /where 6 would do/);
    assert.match(
      series.cure.layout.join(),
      /_<its part, of 240 values>,properties: V00, V01 … V239;/,
    );
  });

  it("prints filters so that they command no terminal", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.query("Email eq '\u001b[2Jx\n0 findings'", { read: 200, returned: 1 });
    }
    assert.match(
      printAdvice(traffic.advice()),
      /for example Email eq '\ufffd\[2Jx\ufffd0 findings'$/m,
    );
  });

  it("names each of several findings of a rule in a table by itself, in every recording", () => {
    const traffic = record();
    for (let i = 0; i < 9; i++) {
      traffic.query(`${i % 3 ? "Email" : "Phone"} eq '${i}'`, { read: 200, returned: 1 });
    }
    const sarif = adviceSarif(traffic.advice(), "1.0.0");
    const found = JSON.stringify(sarif).match(/"rowhouse\/v2":"[^"]*"/g);
    assert.deepEqual(found, [
      '"rowhouse/v2":"scan:a/T:Phone eq ?"',
      '"rowhouse/v2":"scan:a/T:Email eq ?"',
    ]);
  });

  it("sees requests that are repeated at once, or without hope, and no others", () => {
    const repeat = (status: number, errorCode: string, everyMs: number) => {
      const traffic = record();
      for (let i = 0; i < 5; i++) {
        traffic.refuse("/a/T(PartitionKey='p',RowKey='r')", status, errorCode);
        traffic.tick(everyMs);
      }
      return traffic.rules();
    };
    assert.deepEqual(repeat(503, "ServerBusy", 50), ["retries"]);
    assert.deepEqual(repeat(503, "ServerBusy", 800), []);
    assert.deepEqual(repeat(403, "AuthorizationFailure", 800), ["retries"]);
    assert.deepEqual(repeat(403, "AuthorizationFailure", 60_000), []);
    // A missing entity may appear soon, and a failed condition may be part of a loop that reads again.
    assert.deepEqual(repeat(404, "ResourceNotFound", 50), []);
    assert.deepEqual(repeat(412, "UpdateConditionNotSatisfied", 50), []);
  });

  it("takes refused inserts for one request only where they bear the same id", () => {
    const refused = (idOf: (i: number) => string | undefined) => {
      const traffic = record();
      for (let i = 0; i < 50; i++) traffic.refuse("/a/T", 503, "ServerBusy", idOf(i));
      return traffic.rules();
    };
    assert.deepEqual(
      refused(() => undefined),
      [],
    );
    assert.deepEqual(
      refused((i) => `id ${i}`),
      [],
    );
    assert.deepEqual(
      refused(() => "one id"),
      ["retries"],
    );
  });

  it("tells of a table under one name, whatever the case in which it was addressed", () => {
    const traffic = record();
    for (const table of ["orders", "Orders", "ORDERS"]) {
      traffic.query("Email eq 'a'", { read: 200, returned: 1, table });
      traffic.write(table, [["insert", "r", undefined]], table);
    }
    for (let i = 0; i < 5; i++) {
      traffic.refuse("/a/oRDERS(PartitionKey='p',RowKey='r')", 403, "AuthorizationFailure");
    }
    const told = (data?: ReadonlyMap<string, TableData>) =>
      traffic.advice(data).findings.map(({ rule, table }) => [rule, table]);
    const data = new Map([["a/OrderS", { entities: 0, samples: [], onlyPartition: undefined }]]);
    assert.deepEqual(told(data), [
      ["scan", "a/OrderS"],
      ["retries", "a/OrderS"],
    ]);
    assert.deepEqual(told(), [
      ["scan", "a/orders"],
      ["retries", "a/orders"],
    ]);
  });

  it("sees a filter that only the cloud finds dear", () => {
    const traffic = record();
    const filter = "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b')";
    for (let i = 0; i < 3; i++) traffic.query(filter, { read: 2, returned: 2 });
    assert.deepEqual(traffic.rules(), ["or-over-keys"]);
  });

  it("does not take a partition without one of its entities for several keys", () => {
    const traffic = record();
    const filter = "PartitionKey eq 'p' and RowKey ne 'a'";
    for (let i = 0; i < 3; i++) traffic.query(filter, { read: 20, returned: 20 });
    assert.deepEqual(traffic.rules(), []);
  });

  it("sees several partitions in one filter", () => {
    const traffic = record();
    const filter = "PartitionKey eq 'p' or PartitionKey eq 'q'";
    for (let i = 0; i < 3; i++) traffic.query(filter, { read: 20, returned: 20 });
    assert.deepEqual(traffic.rules(), ["or-over-keys"]);
  });

  it("takes lists of alternatives for one kind of query, however long each is", () => {
    const traffic = record();
    for (const count of [2, 3, 4]) {
      const rows = Array.from({ length: count }, (_, i) => `RowKey eq '${i}'`).join(" or ");
      traffic.query(`PartitionKey eq 'p' and (${rows})`, { read: count, returned: count });
    }
    assert.deepEqual(traffic.rules(), ["or-over-keys"]);
  });

  it("sees partitions near their target, and traffic beyond it", () => {
    const traffic = record();
    for (let i = 0; i < 2; i++) {
      traffic.query("PartitionKey eq 'p'", { read: 500, returned: 500 });
    }
    assert.deepEqual(traffic.rules(), ["hot-partition"]);
    // Two pages of one list, which count as one request.
    const list = record();
    for (let i = 0; i < 2; i++) {
      list.query("PartitionKey eq 'p'", { read: 1000, returned: 1000, continued: i > 0 });
    }
    assert.deepEqual(list.rules(), []);
    const beyond = record();
    for (let i = 0; i < 4; i++) {
      beyond.query("PartitionKey eq 'p'", { read: 1000, returned: 1000 });
    }
    assert.deepEqual(beyond.rules(), ["over-targets", "hot-partition"]);
  });

  it("names the busiest of many partitions, each in its busiest second", () => {
    const traffic = record();
    for (const [i, read] of [1000, 1100, 900, 1300, 1200].entries()) {
      for (const second of [1, 60, 1]) {
        for (const share of [0.4, 0.6]) {
          const part = (share * read) / second;
          traffic.query(`PartitionKey eq 'p${i}'`, { read: part, returned: part });
        }
        traffic.tick(5000);
      }
    }
    const [hot] = traffic.advice().findings.filter(({ rule }) => rule === "hot-partition");
    assert.match(hot?.title ?? "", /^4 partitions carried/);
    assert.deepEqual(
      hot?.evidence,
      ["p3: 1300", "p4: 1200", "p1: 1100"].map((each) => `a/T/${each} in its busiest second`),
    );
  });

  it("sees tables that are read whole again and again", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.tick(10_000);
      traffic.query("", { read: 1000, returned: 1000 });
    }
    assert.deepEqual(traffic.rules(), ["bulk-reads"]);
  });

  it("takes no reads of ranges for those of the whole table, though their filters are alike", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.query("PartitionKey ge ''", { read: 1, returned: 1 });
      traffic.query("PartitionKey ge 'm'", { read: 1000, returned: 1000 });
    }
    assert.deepEqual(traffic.rules(), []);
  });

  it("sees wide entities that are not projected", () => {
    const traffic = record();
    const cost = { read: 100, returned: 100, bytes: 100 * 20_000 };
    traffic.query("PartitionKey eq 'p'", cost);
    const [wide, ...others] = traffic.advice().findings;
    assert.deepEqual([wide?.rule, others], ["wide-answers", []]);
    // Entities that were read but not returned were not sent.
    const filtered = record();
    filtered.query("PartitionKey eq 'p' and A eq 1", { ...cost, read: 300, bytes: 300 * 20_000 });
    assert.equal(filtered.advice().findings[0]?.cost, wide?.cost);
    const projected = record();
    projected.query("PartitionKey eq 'p'", { ...cost, projected: true });
    assert.deepEqual(projected.rules(), []);
  });

  it("sees values that belong into blobs", () => {
    const traffic = record();
    traffic.write("p", [["insert", "r", undefined]]);
    const sample: EntitySample = {
      ...{ partitionKey: "p", rowKey: "r", properties: 1 },
      ...{ bytes: 500_000, numeric: false },
    };
    const data = new Map([["a/T", { entities: 1, samples: [sample], onlyPartition: undefined }]]);
    assert.deepEqual(traffic.rules(data), ["large-values"]);
  });

  it("takes the reads of a table that is updated by ETag for what they are, also before inserts", () => {
    const play = (etag: string) => {
      const traffic = record();
      for (let i = 0; i < 20; i++) {
        const isNew = i < 15;
        const read = isNew ? 0 : 1;
        const rowKey = `r${i}`;
        traffic.query("", { read, returned: read }, { partitionKey: "p", rowKey });
        traffic.write("p", [isNew ? ["insert", rowKey, undefined] : ["replace", rowKey, etag]]);
        traffic.tick(200);
      }
      return traffic.rules();
    };
    assert.deepEqual(play('"etag"'), []);
    assert.deepEqual(play("*"), ["read-before-write"]);
  });

  it("asks for no copy of what a list was of, and for one where it was of an index beside it", () => {
    for (const [projected, rowKeys, advice] of [
      [true, ["a_1", "a_2", "a_3"], /^Name all that is shown in the \$select/],
      [false, ["a_1", "a_2", "a_3"], /^Use what the list returned/],
      [true, ["id_1", "id_2", "id_3"], /^Copy what the list shows into the entities of the index/],
    ] as const) {
      const traffic = record();
      for (let i = 0; i < 3; i++) {
        const filter = "PartitionKey eq 'p' and RowKey ge 'a_' and RowKey lt 'b_'";
        traffic.query(filter, { read: 3, returned: 3, projected });
        for (const rowKey of rowKeys) {
          traffic.query("", { read: 1, returned: 1 }, { partitionKey: "p", rowKey });
        }
      }
      const [followed] = traffic.advice().findings;
      assert.equal(followed?.rule, "n-plus-one");
      assert.match(followed.cure.advice, advice);
    }
  });

  it("takes no read for the reason of a write that comes much later", () => {
    for (const [between, rules] of [
      [60, ["read-before-write"]],
      [70, []],
    ] as const) {
      const traffic = record();
      for (let i = 0; i < 10; i++) {
        const rowKey = `r${i}`;
        traffic.query("", { read: 1, returned: 1 }, { partitionKey: "p", rowKey });
        for (let k = 0; k < between; k++) {
          const other = { partitionKey: "p", rowKey: `other${k}` };
          traffic.query("", { read: 1, returned: 1 }, other);
        }
        traffic.write("p", [["merge", rowKey, undefined]]);
        traffic.tick(200);
      }
      assert.deepEqual(traffic.rules(), rules);
    }
  });

  it("takes a read that a write's ETag comes from for what it is", () => {
    const traffic = record();
    for (let i = 0; i < 10; i++) {
      traffic.query(`PartitionKey eq 'p${i}' and RowKey eq 'r'`, { read: 1, returned: 1 });
      traffic.write(`p${i}`, [["merge", "r", '"etag"']]);
    }
    assert.deepEqual(traffic.rules(), []);
  });
});
