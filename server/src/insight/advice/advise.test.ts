import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { random, record } from "../test-traffic.ts";
import { adviceSarif, printAdvice } from "./print-advice.ts";
import type { EntitySample, TableData } from "./rule.ts";

describe("Advice", () => {
  it("has no findings for an empty recording, and cannot judge any line of the checklist", () => {
    const { findings, lines } = record().advice();
    assert.deepEqual(findings, []);
    assert.ok(lines.every(({ verdict }) => verdict === "cannot judge"));
  });

  it("reports a run of single writes to one partition, but not a transaction", () => {
    const traffic = record();
    for (let i = 0; i < 60; i++) traffic.write("p", [["insert", `r${i}`, undefined]]);
    assert.deepEqual(traffic.rules(), ["single-writes"]);
    const batched = record();
    const batch = Array.from({ length: 60 }, (_, i) => ["insert", `r${i}`, undefined] as const);
    batched.write("p", batch);
    assert.deepEqual(batched.rules(), []);
  });

  it("does not count transactions or writes to alternating tables as a run of single writes", () => {
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

  it("does not count deletes and updates as inserts at the end of a table", () => {
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

  it("reports new partition keys that ascend or descend", () => {
    for (const keyOf of [(i: number) => 1000 + i, (i: number) => 9000 - i]) {
      const traffic = record();
      for (let i = 0; i < 200; i++) {
        traffic.write(`p${keyOf(i)}`, [["insert", "r", undefined]]);
        traffic.tick(200);
      }
      assert.deepEqual(traffic.rules(), ["append-only-keys"]);
    }
  });

  it("computes the transactions needed for each partition separately", () => {
    const traffic = record();
    for (let i = 0; i < 4 * 101; i++) {
      traffic.write(`p${Math.floor(i / 101)}`, [["insert", `r${i}`, undefined]]);
    }
    const [single] = traffic.advice().findings;
    assert.equal(single?.rule, "single-writes");
    assert.equal(single.cost, "404 requests and flushes; 8 transactions would do.");
  });

  it("does not count writes more than 0.1 s apart as a run", () => {
    const traffic = record();
    for (let i = 0; i < 60; i++) {
      traffic.write("room", [["insert", `r${i}`, undefined]]);
      traffic.tick(150);
    }
    assert.deepEqual(traffic.rules(), []);
  });

  it("reports a table with a single partition, and one whose partition is the current day", () => {
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

  it("does not report repeated writes of one entity, which a transaction can contain only once", () => {
    const traffic = record();
    for (let i = 0; i < 200; i++) traffic.write("p", [["merge", "counter", '"etag"']]);
    assert.deepEqual(traffic.rules(), []);
  });

  it("counts a query once, however many pages it has", () => {
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
    assert.match(scan.cost, /^100000 entities read per query/);
  });

  it("reports lists followed by a point query for each entity, but not random mixes of both", () => {
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

  it("divides a long series among as few entities as can hold it", () => {
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
      series.remedy.layout.join(),
      /_<number of the part, 240 values each>,properties: V00, V01 … V239;/,
    );
  });

  it("is printed without control characters from filters", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.query("Email eq '\u001b[2Jx\n0 findings'", { read: 200, returned: 1 });
    }
    assert.match(
      printAdvice(traffic.advice()),
      /for example Email eq '\ufffd\[2Jx\ufffd0 findings'$/m,
    );
  });

  it("gives each finding of a rule in a table its own SARIF fingerprint", () => {
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

  it("reports requests repeated at once after a 503 or soon after a 403, but not slower ones, nor 404 and 412", () => {
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

  it("finds lookups after lists of one shape, also after twelve scans of the same table", () => {
    const traffic = record();
    for (let i = 0; i < 12; i++) traffic.query(`Age gt ${i}`, { read: 50, returned: 40 });
    for (let i = 0; i < 4; i++) {
      traffic.query(`PartitionKey eq 'p${i}'`, { read: 5, returned: 5 });
      for (let k = 0; k < 5; k++) {
        const key = { partitionKey: "all", rowKey: `r${k}` };
        traffic.query("", { read: 1, returned: 1, table: "Products" }, key);
      }
      traffic.tick(3000);
    }
    assert.deepEqual(traffic.rules(), ["n-plus-one"]);
  });

  it("finds a read before each write, also after twenty plain inserts that filled the table", () => {
    const traffic = record();
    for (let i = 0; i < 20; i++) {
      traffic.write(`p${i}`, [["insert", "r", undefined]]);
      traffic.tick(1000);
    }
    for (let i = 0; i < 6; i++) {
      const key = { partitionKey: `p${i}`, rowKey: "r" };
      traffic.query("", { read: 1, returned: 1 }, key);
      traffic.write(`p${i}`, [["merge", "r", undefined]]);
      traffic.tick(1000);
    }
    assert.deepEqual(traffic.rules(), ["read-before-write"]);
  });

  it("proposes the coarser key where related entities are spread over many small partitions", () => {
    const play = (keyOf: (customer: number, order: number) => string, customers = 40) => {
      const traffic = record();
      for (let customer = 0; customer < customers; customer++) {
        for (let order = 0; order < 15; order++) {
          traffic.write(keyOf(customer, order), [["insert", `r${order}`, undefined]]);
          traffic.tick(500);
        }
        const range = `PartitionKey ge 'c${customer}_' and PartitionKey lt 'c${customer}\``;
        traffic.query(`${range}'`, { read: 15, returned: 15 });
      }
      return traffic.advice().findings.filter(({ rule }) => rule === "many-partitions");
    };
    const [found, ...others] = play((customer, order) => `c${customer}_${order * 7919}`);
    assert.deepEqual(others, []);
    assert.match(found?.title ?? "", /^600 partitions of an entity or two are read by 40 ranges/);
    assert.match(
      found?.remedy.advice ?? "",
      /transactions of up to 100; .* 2000 entities a second/,
    );
    // A partition for each customer is what the finding proposes; nine ranges are no habit.
    assert.deepEqual(
      play((customer) => `c${customer}_`),
      [],
    );
    assert.deepEqual(
      play((customer, order) => `c${customer}_${order}`, 9),
      [],
    );
  });

  it("says that nothing was found only of what the recording could show", () => {
    const verdictOf = (traffic: ReturnType<typeof record>, rule: RegExp) =>
      traffic.lines().find(({ question }) => rule.test(question))?.verdict;
    const reading = record();
    reading.query("PartitionKey eq 'p'", { read: 5, returned: 5 });
    assert.equal(verdictOf(reading, /^Are writes to one partition/), "cannot judge");
    const writing = record();
    writing.write("p", [["insert", "r", undefined]]);
    assert.equal(verdictOf(writing, /denormalized/), "cannot judge");
  });

  it("advises against an account's limit with accounts, not with keys", () => {
    const traffic = record();
    for (let i = 0; i < 30; i++) traffic.query("Age gt 1", { read: 1000, returned: 900 });
    const [over] = traffic.advice().findings.filter(({ rule }) => rule === "over-targets");
    assert.equal(over?.subject, "ServerBusy a");
    assert.equal(over.remedy.pattern, "several accounts");
  });

  it("finds inserts and lists that are sent again although they cannot succeed, under any id", () => {
    for (const path of ["/a/T", "/a/T()"]) {
      const traffic = record();
      for (let i = 0; i < 4; i++) {
        traffic.refuse(path, 400, "InvalidInput", `id ${i}`);
        traffic.tick(500);
      }
      assert.deepEqual(traffic.rules(), ["retries"], path);
    }
  });

  it("counts inserts that a busy server refused as repeats only if they have the same client request id", () => {
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

  it("reports a table under one name, in whatever case requests spell it", () => {
    const traffic = record();
    for (const table of ["orders", "Orders", "ORDERS"]) {
      traffic.query("Email eq 'a'", { read: 200, returned: 1, table });
      traffic.write(table, [["insert", "r", undefined]], table);
    }
    for (let i = 0; i < 5; i++) {
      traffic.refuse("/a/oRDERS(PartitionKey='p',RowKey='r')", 403, "AuthorizationFailure");
    }
    const adviceOn = (data?: ReadonlyMap<string, TableData>) =>
      traffic.advice(data).findings.map(({ rule, table }) => [rule, table]);
    const data = new Map([["a/OrderS", { entities: 0, samples: [], onlyPartition: undefined }]]);
    assert.deepEqual(adviceOn(data), [
      ["scan", "a/OrderS"],
      ["retries", "a/OrderS"],
    ]);
    assert.deepEqual(adviceOn(), [
      ["scan", "a/orders"],
      ["retries", "a/orders"],
    ]);
  });

  it("reports a filter of several row keys, which is a scan only in the cloud", () => {
    const traffic = record();
    const filter = "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b')";
    for (let i = 0; i < 3; i++) traffic.query(filter, { read: 2, returned: 2 });
    assert.deepEqual(traffic.rules(), ["or-over-keys"]);
  });

  it("does not report a partition scan that excludes one row key as a filter of several keys", () => {
    const traffic = record();
    const filter = "PartitionKey eq 'p' and RowKey ne 'a'";
    for (let i = 0; i < 3; i++) traffic.query(filter, { read: 20, returned: 20 });
    assert.deepEqual(traffic.rules(), []);
  });

  it("reports a filter of several partitions", () => {
    const traffic = record();
    const filter = "PartitionKey eq 'p' or PartitionKey eq 'q'";
    for (let i = 0; i < 3; i++) traffic.query(filter, { read: 20, returned: 20 });
    assert.deepEqual(traffic.rules(), ["or-over-keys"]);
  });

  it("counts filters that differ only in the number of alternatives as one shape", () => {
    const traffic = record();
    for (const count of [2, 3, 4]) {
      const rows = Array.from({ length: count }, (_, i) => `RowKey eq '${i}'`).join(" or ");
      traffic.query(`PartitionKey eq 'p' and (${rows})`, { read: count, returned: count });
    }
    assert.deepEqual(traffic.rules(), ["or-over-keys"]);
  });

  it("reports partitions near the target, and traffic beyond it, but not the pages of one list", () => {
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

  it("lists the three busiest partitions with the entities of their busiest second", () => {
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

  it("reports tables that are read whole three times", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.tick(10_000);
      traffic.query("", { read: 1000, returned: 1000 });
    }
    assert.deepEqual(traffic.rules(), ["bulk-reads"]);
  });

  it("does not count partition ranges as table scans, though their filters have the same shape", () => {
    const traffic = record();
    for (let i = 0; i < 3; i++) {
      traffic.query("PartitionKey ge ''", { read: 1, returned: 1 });
      traffic.query("PartitionKey ge 'm'", { read: 1000, returned: 1000 });
    }
    assert.deepEqual(traffic.rules(), []);
  });

  it("reports wide entities returned without $select, at the size of the returned ones only", () => {
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

  it("reports entities with large values", () => {
    const traffic = record();
    traffic.write("p", [["insert", "r", undefined]]);
    const sample: EntitySample = {
      ...{ partitionKey: "p", rowKey: "r", properties: 1 },
      ...{ bytes: 500_000, numeric: false },
    };
    const data = new Map([["a/T", { entities: 1, samples: [sample], onlyPartition: undefined }]]);
    assert.deepEqual(traffic.rules(data), ["large-values"]);
  });

  it("does not report reads of a table that is updated by ETag, even before inserts", () => {
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

  it("does not report reads before inserts alone, as of a view that is being filled", () => {
    const traffic = record();
    for (let i = 0; i < 20; i++) {
      const [partitionKey, rowKey] = ["p", `r${i}`];
      traffic.query("", { read: 0, returned: 0 }, { partitionKey, rowKey });
      traffic.query("", { read: 1, returned: 1, table: "Source" }, { partitionKey, rowKey });
      traffic.write("p", [["insert", rowKey, undefined]]);
      traffic.tick(200);
    }
    assert.deepEqual(traffic.rules(), []);
  });

  it("suggests a projection if the list contained the entities, and a copy if it listed an index", () => {
    for (const [projected, rowKeys, advice] of [
      [true, ["a_1", "a_2", "a_3"], /^Add every property you show to the \$select/],
      [false, ["a_1", "a_2", "a_3"], /^Use the result of the list/],
      [
        true,
        ["id_1", "id_2", "id_3"],
        /^Copy the properties that the list shows into the index entities/,
      ],
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
      assert.match(followed.remedy.advice, advice);
    }
  });

  it("does not attribute a read to a write that comes more than 64 operations later", () => {
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

  it("does not report a read that provides the ETag of a write", () => {
    const traffic = record();
    for (let i = 0; i < 10; i++) {
      traffic.query(`PartitionKey eq 'p${i}' and RowKey eq 'r'`, { read: 1, returned: 1 });
      traffic.write(`p${i}`, [["merge", "r", '"etag"']]);
    }
    assert.deepEqual(traffic.rules(), []);
  });
});
