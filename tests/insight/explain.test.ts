import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { explainFilter } from "rowhouse/explain";
import { inspect } from "rowhouse/inspect";
import { sizesOfTables } from "rowhouse/inspect-sizes";
import { batchedQuery, readBatch, sendBatch } from "../wire/table-batch.ts";
import { fillTable, withServer } from "./watched-server.ts";

describe("rowhouse explain", () => {
  it("prints the scan and the index table that avoids it", async () => {
    const { text } = await explainFilter("Email eq 'a@b'", { table: "People" }, {});
    assert.match(text, /^plan {6}table scan where Email eq 'a@b'$/m);
    assert.match(text, /inter-partition secondary index/);
    assert.match(
      text,
      /PeopleByEmail: PartitionKey = <Email>, RowKey = <PartitionKey>_<RowKey> of People/,
    );
  });

  it("refuses an invalid table name", async () => {
    for (const table of ["a-b", "ab", "1st", "Tables", "", "t".repeat(64)]) {
      const explaining = explainFilter("PartitionKey eq 'a'", { table }, {});
      await assert.rejects(
        explaining,
        /^Error: ".*" is not a table name: use 3 to 63 letters and digits/,
      );
    }
  });

  it("suggests nothing better than a point query", async () => {
    const filter = "PartitionKey eq 'a' and RowKey eq 'b'";
    const { text } = await explainFilter(filter, { table: "People" }, {});
    assert.match(text, /^better {4}none/m);
  });

  it("warns that several point reads here are a scan in the cloud", async () => {
    const filter = "PartitionKey eq 'a' and (RowKey eq 'b' or RowKey eq 'c')";
    assert.match(
      (await explainFilter(filter, { table: "People" }, {})).text,
      /the cloud scans for an "or"/,
    );
  });

  it("says what several reads cost together", async () => {
    const filter = "PartitionKey eq 'a' or PartitionKey eq 'b'";
    const { text } = await explainFilter(filter, { table: "People" }, {});
    assert.match(
      text,
      /^meaning {3}2 reads\. The most expensive is a partition scan: every entity of one partition/m,
    );
  });

  it("prints the service's refusal of an invalid filter", async () => {
    for (const [filter, reason] of [
      ["Age eq", /\(400 InvalidInput\)/],
      ["startswith(Name, 'a')", /^Error: The service rejects this \$filter \(501 NotImplemented\)/],
    ] as const) {
      await assert.rejects(explainFilter(filter, { table: "People" }, {}), reason);
    }
  });

  it("removes control characters from an endpoint's headers", async () => {
    const server = createServer((_, response) => {
      response.setHeader("x-rowhouse-plan", "table scan\u009b31m").end("{}");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const address = server.address();
    assert.ok(address !== null && typeof address === "object");
    const against = `http://127.0.0.1:${address.port}/devstoreaccount1`;
    const { text } = await explainFilter("", { table: "People", against }, {});
    server.close();
    server.closeAllConnections();
    assert.match(text, /^its plan {2}table scan.*31m$/m);
    assert.doesNotMatch(text, /[^\n\P{Cc}]/u);
  });

  it("prints the endpoint's message without the escapes of JSON", async () => {
    const value = 'over the "no scan" budget\nRequestId:1';
    const server = createServer((_, response) => {
      response.writeHead(400).end(JSON.stringify({ "odata.error": { message: { value } } }));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const address = server.address();
    assert.ok(address !== null && typeof address === "object");
    const against = `http://127.0.0.1:${address.port}/devstoreaccount1`;
    const { failure } = await explainFilter("", { table: "People", against }, {});
    server.close();
    server.closeAllConnections();
    assert.equal(failure, `${against} answered 400: over the "no scan" budget`);
  });

  it("prints why an endpoint does not answer", async () => {
    let url = "";
    await withServer({}, async ({ accountUrl }) => {
      url = accountUrl;
    });
    await assert.rejects(
      explainFilter("", { table: "People", against: url }, {}),
      /^Error: Nothing serves at http:\/\/127\.0\.0\.1:\d+ \(.*ECONNREFUSED/,
    );
  });

  it("names the endpoint without the key of the connection string that was given", () =>
    withServer({}, async ({ accountUrl }) => {
      const key = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
      const { name } = DEVELOPMENT_ACCOUNT;
      const against = `AccountName=${name};AccountKey=${key};TableEndpoint=${accountUrl}`;
      const { text, failure } = await explainFilter("", { table: "People", against }, {});
      assert.match(text, /^endpoint {2}http:\S+ answered 404$/m);
      assert.ok(!`${text}${failure}`.includes(key));
    }));

  it("sends the query to a server and prints its cost", () =>
    withServer({}, async ({ wire, accountUrl }) => {
      await fillTable(wire, "People", people);
      const options = { table: "People", against: accountUrl };
      const { text, failure } = await explainFilter(
        "PartitionKey eq 'p' and Age eq 2",
        options,
        {},
      );
      assert.equal(failure, undefined);
      assert.match(text, /entities-read +3$/m);
      assert.match(text, /entities-returned +1$/m);
      assert.match(text, /intra-partition secondary index/);
    }));
});

describe("The cost of a query", () => {
  it("is in the headers of its answer, alone and in a batch", () =>
    withServer({}, async ({ wire }) => {
      await fillTable(wire, "People", people);
      const filter = "PartitionKey eq 'p' and Age ge 2".replaceAll(" ", "%20");
      const path = `/People()?$filter=${filter}`;
      const alone = await wire.send("GET", path);
      const [batched] = readBatch(await sendBatch(wire, batchedQuery(path)));
      for (const header of [
        (name: string) => alone.header(name),
        (name: string) => batched?.headers[name],
      ]) {
        assert.equal(header("x-rowhouse-plan"), "partition scan p where Age ge 2");
        assert.match(
          header("x-rowhouse-cost") ?? "",
          /^entities-read=3, entities-returned=2, bytes-read=[1-9]\d*, pages=1, engine-us=\d+, azure-entities=3$/,
        );
      }
    }));

  it("is also in the headers of a point query's 404", () =>
    withServer({}, async ({ wire }) => {
      await fillTable(wire, "People", people);
      const absent = await wire.send("GET", "/People(PartitionKey='p',RowKey='4')");
      assert.equal(absent.status, 404);
      assert.equal(absent.header("x-rowhouse-plan"), "point query p/4");
      assert.match(
        absent.header("x-rowhouse-cost") ?? "",
        /^entities-read=0, entities-returned=0, bytes-read=0, pages=0, engine-us=\d+, azure-entities=1$/,
      );
    }));
});

const people = [1, 2, 3].map((age) => ({ PartitionKey: "p", RowKey: String(age), Age: age }));

describe("rowhouse inspect", () => {
  it("prints decoded keys up to the limit", async () => {
    const engine = new MemoryEngine();
    await withServer({ engine }, async ({ wire }) => {
      await fillTable(wire, "People", people);
      const lines: string[] = [];
      await inspect(engine, { table: "people", limit: 2 }, (line) => lines.push(line));
      assert.equal(lines.length, 3);
      assert.match(lines[0]!, /^entity {2}account 0 table 0 {2}"p" \/ "1" {2}\{.*\} {2}\d+ bytes/);
      assert.match(lines[2]!, /more than 2 entries/);
    });
  });

  it("reports the sizes of partitions and their skew", async () => {
    const engine = new MemoryEngine();
    await withServer({ engine }, async ({ wire }) => {
      const many = Array.from({ length: 12 }, (_, i) => ({ PartitionKey: `q${i}`, RowKey: "1" }));
      await fillTable(wire, "People", [...people, ...many]);
      await fillTable(wire, "Empty", []);
      const [empty, sizes] = await sizesOfTables(engine);
      assert.deepEqual([empty?.partitions, empty?.skew.first], [0, 0]);
      assert.deepEqual(
        [sizes?.table, sizes?.partitions, sizes?.entities],
        ["devstoreaccount1/People", 13, 15],
      );
      const { largest, skew, bytes } = sizes!;
      assert.deepEqual(
        [largest.length, largest[0]?.partitionKey, largest[0]?.entities],
        [10, "p", 3],
      );
      assert.equal(skew.first, Math.round((largest[0]!.bytes / bytes) * 1000) / 1000);
      assert.ok(skew.first < skew.firstTen && skew.firstTen < 1);
      await assert.rejects(sizesOfTables(engine, "Nobody"), /no table "Nobody"/);
    });
  });

  it("prints every key space", async () => {
    const engine = new MemoryEngine();
    await withServer({ engine }, async ({ wire }) => {
      await fillTable(wire, "People", people);
      const lines: string[] = [];
      await inspect(engine, { limit: 100 }, (line) => lines.push(line));
      assert.match(lines.join("\n"), /^accounts {2}devstoreaccount1 {2}id 0$/m);
      assert.match(lines.join("\n"), /^table catalog {2}account 0/m);
    });
  });
});
