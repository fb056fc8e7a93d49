import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { RequestRecord, Sender } from "../http/observer.ts";
import { planQuery } from "../query/planner.ts";
import type { EntitySample, TableData } from "./advice.ts";
import { advise } from "./advise.ts";
import { DeferredWatchers } from "./deferred-watchers.ts";
import { keysRead, type MutationFacts, type QueryFacts } from "./insight.ts";
import { adviceSarif, printAdvice } from "./print-advice.ts";
import {
  type QueryEvent,
  type RecordingEnd,
  readRecording,
  type TrafficEvent,
  TrafficRecorder,
} from "./recording.ts";

describe("A recording", () => {
  it("gives back what happened, whatever stands in keys and filters", () => {
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

  it("tells the partition of each query, also when it is the one before, between tables and clients", () => {
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
    const told = traffic.events().map((each) => [each.client, each.table, each.partitionKey]);
    assert.deepEqual(told, [
      ...["p", "p", "q"].map((key) => ["::1", "T", key]),
      ["::1", "V", "w"],
      ...["q", "p", undefined].map((key) => ["::1", "T", key]),
      ["::1", "U", "p"],
      ["::2", "U", "p"],
      ["::1", "T", "p"],
    ]);
  });

  it("gives back any order of queries by address, other queries, writes and refusals", () => {
    const seed = 20_261_122;
    const below = random(seed);
    const traffic = record();
    const told: Partial<QueryEvent>[] = [];
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
        told.push({ ...origin, partitionKey, rowKey: undefined, filter, read: 9, bytes: 7 });
      } else {
        const found = below(8) === 0 ? 0 : 1;
        const rowKey = below(50) === 0 ? 'é"' : `row-${below(1e9)}`;
        const bytes = found * [0, 7, 42, 999, 1_000, 9_999, 10_000, 300_000][below(8)]!;
        const spent = { ...origin, projected: below(9) === 0, bytes };
        traffic.query("", { ...spent, read: found, returned: found }, { partitionKey, rowKey });
        told.push({ ...spent, partitionKey, rowKey, filter: undefined, read: found });
      }
    }
    const queries = traffic.events().filter((event) => event.kind === "query");
    assert.equal(queries.length, told.length);
    for (const [i, query] of queries.entries()) {
      assert.deepEqual({ ...query, ...told[i] }, query, `query ${i} of seed ${seed}`);
    }
  });

  it("of format 3 is still read", () => {
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

  it("ends where it is as long as it may be", () => {
    const traffic = record(100_000);
    for (let i = 0; i < 10_000; i++) traffic.write("partition", [["insert", `r${i}`, undefined]]);
    const text = traffic.text();
    assert.ok(text.length > 100_000 && text.length < 200_000, `${text.length}`);
    assert.equal(readAll(text).ending, "full");
  });

  it("tells whether a query goes on where a page ended", () => {
    const traffic = record();
    const page = { read: 1000, returned: 1000 };
    traffic.query("Age gt 5", page);
    traffic.query("Age gt 5", { ...page, continued: true, projected: true });
    const told = traffic
      .events()
      .map((each) => each.kind === "query" && [each.continued, each.projected]);
    assert.deepEqual(told, [
      [false, false],
      [true, true],
    ]);
  });

  it("is read up to a last line that was cut off", () => {
    const traffic = record();
    traffic.write("p", [["insert", "r", undefined]]);
    const text = traffic.text();
    const { events, ending } = readAll(text.slice(0, -5));
    assert.deepEqual([events.length, ending], [1, "cut off"]);
    assert.throws(() => readAll(`${text.slice(0, -5)}\n${text}`), /^Error: Line 4 .* is damaged/);
    assert.throws(() => readAll(""), /no recording/);
    assert.throws(() => readAll("something else"), /no recording/);
    assert.throws(() => readAll('["rowhouse-recording",9]\n'), /format 9; 3, 4, 5 are read/);
  });
});

describe("Advice on clients", () => {
  it("sees connections that are opened for each request, and not those that are kept", () => {
    const kept = record();
    kept.ask(60, { perConnection: 3 });
    assert.deepEqual(kept.rules(), []);
    const opened = record();
    opened.ask(60, { perConnection: 2 });
    assert.deepEqual(opened.rules(), ["connections"]);
  });

  it("does not take the many addresses that are not told apart for one client", () => {
    const traffic = record();
    for (let i = 0; i < 400; i++) traffic.ask(1, { remoteAddress: `10.0.${i >> 8}.${i & 255}` });
    assert.deepEqual(traffic.rules(), []);
  });

  it("sees web pages that sign with the account's key, and not those with a SAS", () => {
    const headers = { origin: "https://shop.example", "user-agent": "Mozilla/5.0" };
    for (const [caller, rules] of [
      ["shared-key", ["page-access"]],
      ["service-sas", []],
    ] as const) {
      const traffic = record();
      traffic.ask(3, { caller, headers });
      assert.deepEqual(traffic.rules(), rules);
    }
  });

  it("sees preflights that are refused, and those that are asked again and again", () => {
    const refused = record();
    const code = { status: 403, errorCode: "CorsPreflightFailure" };
    const page = { caller: "anonymous", verb: "OPTIONS", headers: { origin: "null" } } as const;
    refused.ask(3, { ...page, ...code });
    assert.deepEqual(refused.rules(), ["page-access"]);
    const repeated = record();
    repeated.ask(20, page);
    repeated.ask(40, { caller: "service-sas", headers: page.headers });
    assert.deepEqual(repeated.rules(), ["page-access"]);
    const cached = record();
    cached.ask(20, page);
    cached.ask(41, { caller: "service-sas", headers: page.headers });
    assert.deepEqual(cached.rules(), []);
  });

  it("sees retired libraries, and versions beside newer ones of the same", () => {
    const agents = (...all: string[]) => {
      const traffic = record();
      for (const agent of all) traffic.ask(1, { headers: { "user-agent": agent } });
      return traffic.rules();
    };
    assert.deepEqual(agents("azsdk-js-data-tables/13.3.2 core-rest-pipeline/1.1.0"), []);
    assert.deepEqual(agents("azsdk-js-data-tables/13.9.0", "azsdk-js-data-tables/13.10.0"), [
      "old-clients",
    ]);
    assert.deepEqual(agents("Azure-Storage/2.10.3 (NODE-VERSION v12)"), ["old-clients"]);
  });

  it("says of what it cannot judge what it saw", () => {
    const traffic = record();
    traffic.query("PartitionKey eq 'p'", { read: 1, returned: 1 });
    traffic.ask(2, {});
    traffic.ask(1, { caller: "anonymous" });
    const direct = traffic.lines().find(({ question }) => /SAS and CORS/.test(question));
    assert.equal(direct?.verdict, "cannot judge");
    assert.match(direct.note, /^requests came 2 with the account's key, 1 with nothing;/);
  });

  it("tells apart no more addresses and agents than it may", () => {
    const traffic = record();
    for (let i = 0; i < 1000; i++) {
      const headers = { "user-agent": `agent ${i}` };
      traffic.ask(1, { remoteAddress: `10.0.${i >> 8}.${i & 255}`, headers });
    }
    const { clients, agents } = readAll(traffic.text());
    assert.deepEqual([clients.length, agents.length], [257, 65]);
    assert.equal(clients.find(({ client }) => client === "others")?.requests, 744);
  });
});

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
    const samples = ["p", "p"].map((partitionKey, i) => ({
      ...{ partitionKey, rowKey: `r${i}`, bytes: 50, properties: 1, numeric: false },
    }));
    const found = (keys: readonly string[], entities: number, others: readonly string[] = []) => {
      const traffic = record();
      for (let i = 0; i < 70; i++) {
        traffic.write(keys[i % keys.length]!, [["insert", `r${i}`, undefined]]);
        traffic.tick(200);
      }
      const other = others.map((partitionKey) => ({ ...samples[0]!, partitionKey }));
      return traffic.rules(new Map([["a/T", { entities, samples: [...samples, ...other] }]]));
    };
    assert.deepEqual(found(["p"], 1000), ["one-partition"]);
    assert.deepEqual(found(["p"], 999), []);
    assert.deepEqual(found(["p"], 1000, ["q"]), []);
    assert.deepEqual(found(["p", "q"], 1000), []);
    // Recordings of these tests begin so.
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
    const data = new Map([["a/T", { entities: 1440, samples }]]);
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
    // Found soon, or in a loop that reads again.
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
    const data = new Map([["a/OrderS", { entities: 0, samples: [] }]]);
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
    // One list, whatever its length.
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

  it("sees wide entities that are not projected", () => {
    const traffic = record();
    const cost = { read: 100, returned: 100, bytes: 100 * 20_000 };
    traffic.query("PartitionKey eq 'p'", cost);
    assert.deepEqual(traffic.rules(), ["wide-answers"]);
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
    const data = new Map([["a/T", { entities: 1, samples: [sample] }]]);
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

/** Whole numbers from 0 to below `end`. */
function random(seed: number): (end: number) => number {
  let state = seed;
  return (end) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return Math.floor(((state >>> 0) / 2 ** 32) * end);
  };
}

interface Spent {
  readonly read: number;
  readonly returned: number;
  readonly bytes?: number;
  readonly projected?: boolean;
  readonly continued?: boolean;
  readonly table?: string;
  readonly client?: string;
}

interface Asked extends Partial<RequestRecord> {
  readonly perConnection?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

const REQUEST: RequestRecord = {
  ...{ service: "table", operation: "QueryEntity", account: "a", verb: "GET", path: "/a/T" },
  ...{ requestId: "id", clientRequestId: undefined, remoteAddress: "::1" },
  ...{ status: 200, errorCode: undefined, refusedInside: undefined, durationMs: 1 },
  cause: undefined,
  ...{ caller: "shared-key", requestBytes: 0, responseBytes: 0 },
};

function sender(headers: Readonly<Record<string, string>>): Sender {
  return { opensConnection: false, header: (name) => headers[name] };
}

/** Of a recording that is short enough. */
function readAll(text: string): RecordingEnd & { readonly events: readonly TrafficEvent[] } {
  const events: TrafficEvent[] = [];
  const keep = (event: TrafficEvent) => events.push(event);
  return { ...readRecording(text.split("\n"), { queried: keep, wrote: keep }), events };
}

function record(bytesMax?: number) {
  let now = 1_000_000_000;
  let text = "";
  const write = (part: Uint8Array) => {
    text += Buffer.from(part).toString();
  };
  const recorder = new TrafficRecorder({ now: () => now }, write, bytesMax);
  const base = { account: "a", table: "T", client: "::1" };
  const deferred = new DeferredWatchers([recorder]);
  const done = () => {
    deferred.drain();
    recorder.end();
    return text;
  };
  const advice = (data?: ReadonlyMap<string, TableData>) => advise(done().split("\n"), data);
  return {
    tick(ms: number) {
      now += ms;
    },
    query(
      filter: string,
      { read, returned, bytes = read * 100, ...rest }: Spent,
      address?: Pick<QueryFacts, "partitionKey" | "rowKey">,
    ) {
      const plan = planQuery(filter === "" ? undefined : parseFilter(filter));
      const keys = address ? { ...address, filter: undefined } : { ...keysRead(plan), filter };
      const cost = { entitiesRead: read, entitiesReturned: returned, bytesRead: bytes };
      deferred.queried(
        {
          ...base,
          projected: false,
          continued: false,
          class: plan.class,
          ...rest,
          at: now,
          plan,
          planText: "",
          ...keys,
        },
        { ...cost, engineMicros: 1 },
      );
    },
    write(
      partitionKey: string,
      parts: readonly (readonly [MutationFacts["kind"], string, unknown])[],
      table = base.table,
    ) {
      const mutations = parts.map(([kind, rowKey, ifMatch]) => ({ kind, rowKey, ifMatch }));
      deferred.admitWrite({ ...base, table, at: now, partitionKey, mutations });
    },
    refuse(path: string, status: number, errorCode: string, clientRequestId?: string) {
      const refused = { ...REQUEST, verb: "PUT", path, status, errorCode, clientRequestId };
      recorder.finished(refused, sender({}));
    },
    /** So many requests, the first of each `perConnection` opening a connection. */
    ask(count: number, { perConnection = count, headers = {}, ...rest }: Asked) {
      for (let i = 0; i < count; i++) {
        const opensConnection = i % perConnection === 0;
        recorder.finished({ ...REQUEST, ...rest }, { ...sender(headers), opensConnection });
      }
    },
    lines: () => advice().lines,
    text: done,
    events: () => readAll(done()).events,
    advice,
    rules: (data?: ReadonlyMap<string, TableData>) => advice(data).findings.map(({ rule }) => rule),
  };
}
