import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openAccountIds } from "@rowhouse/server/catalog/account-ids";
import { Catalog } from "@rowhouse/server/catalog/catalog";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import { systemClock } from "@rowhouse/server/clock";
import type { QueueValue } from "@rowhouse/server/queue/message-store";
import { openTestEngine } from "../support/test-engine.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { QueueWire } from "./queue-wire.ts";
import { assertStorageRefused } from "./storage-refusals.ts";

const engine = await openTestEngine();
let server: LocalServer;
let wire: QueueWire;

before(async () => {
  server = await startLocalServer({ engine, listen: { queue: { host: "127.0.0.1", port: 0 } } });
  wire = new QueueWire(server.urls.queue!);
});
after(async () => {
  wire.close();
  await server.close();
});

describe("List Queues", () => {
  // More than the longest page.
  const MANY = 5_200;
  const list = async (query: string) => {
    const answer = await wire.send("GET", `/?comp=list${query}`);
    assert.equal(answer.status, 200, answer.text);
    return {
      answer,
      names: [...answer.text.matchAll(/<Name>(.*?)<\/Name>/g)].map(([, name]) => name!),
      next: /<NextMarker>(.*?)<\/NextMarker>/.exec(answer.text)?.[1],
    };
  };
  const listAll = async (query: string, between = async () => {}) => {
    const names: string[] = [];
    for (let marker: string | undefined = ""; marker !== undefined; ) {
      const page = await list(`${query}&marker=${marker}`);
      names.push(...page.names);
      marker = page.next;
      await between();
    }
    return names;
  };
  const manyNames = Array.from({ length: MANY }, (_, i) => `many-${String(i).padStart(5, "0")}`);

  before(async () => {
    const ids = await openAccountIds(engine, ["devstoreaccount1"]);
    const catalog = new Catalog<QueueValue>(engine, KEY_SPACES.queueCatalog, ids, systemClock);
    const reversed = manyNames.toReversed();
    for (let at = 0; at < MANY; at += 100) {
      const creations = reversed
        .slice(at, at + 100)
        .map((name) =>
          catalog.create("devstoreaccount1", name, { metadata: [["N", name]], policies: [] }),
        );
      await Promise.all(creations);
    }
    // Over a database this takes longer than a connection may idle.
    wire.close();
  });

  it("returns every queue once and in order, whatever the page size", async () => {
    assert.deepEqual(await listAll("&prefix=many-&maxresults=5000"), manyNames);
    assert.deepEqual(await listAll("&prefix=many-&maxresults=7"), manyNames);
    assert.deepEqual(await listAll("&prefix=many-001&maxresults=1"), manyNames.slice(100, 200));
    assert.equal((await list("&prefix=many-")).names.length, 5000);
    assert.equal((await list("&prefix=many-&maxresults=99999")).names.length, 5000);
  });

  it("neither misses nor repeats a queue while others are created and deleted", async () => {
    const kept = manyNames.slice(0, 200);
    let i = 0;
    const names = await listAll("&prefix=many-00&maxresults=7", async () => {
      // Behind and ahead of the list's current position.
      await wire.send("PUT", `/many-00${String(i).padStart(3, "0")}-new`);
      if (i > 0) await wire.send("DELETE", `/many-00${String(i - 1).padStart(3, "0")}-new`);
      i++;
    });
    assert.deepEqual(names, [...new Set(names)].sort());
    for (const name of kept) assert.ok(names.includes(name), name);
  });

  it("starts at any marker, even one that names no queue", async () => {
    assert.equal(
      (await list("&prefix=many-&marker=many-00000x&maxresults=1")).names[0],
      "many-00001",
    );
    assert.deepEqual((await list("&prefix=many-&marker=zzz")).names, []);
    assert.deepEqual((await list("&prefix=UPPER")).names, []);
  });

  it("repeats its parameters, and includes metadata only on request", async () => {
    const { answer } = await list("&prefix=many-00001&maxresults=3&include=metadata");
    const url = new URL(server.urls.queue!);
    assert.equal(
      answer.text,
      `\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="${url.origin}/devstoreaccount1/"><Prefix>many-00001</Prefix><MaxResults>3</MaxResults><Queues><Queue><Name>many-00001</Name><Metadata><N>many-00001</N></Metadata></Queue></Queues><NextMarker /></EnumerationResults>`,
    );
    assert.doesNotMatch(
      (await list("&prefix=many-00001")).answer.text,
      /Metadata|MaxResults|<Marker/,
    );
  });

  it("ignores empty names in include", async () => {
    for (const [query, found] of [
      ["include=", false],
      ["include=,Metadata,", true],
    ] as const) {
      const { answer } = await list(`&prefix=many-00001&${query}`);
      assert.equal(answer.text.includes("<Metadata>"), found);
    }
  });

  it("refuses a page size of zero and unknown parts in include", async () => {
    const answer = await wire.send("GET", "/?comp=list&maxresults=0");
    const details = assertStorageRefused(answer, 400, "OutOfRangeQueryParameterValue");
    assert.equal(details.MinimumAllowed, "1");
    assert.equal(details.MaximumAllowed, "5000");
    for (const [query, code] of [
      ["maxresults=-5", "OutOfRangeQueryParameterValue"],
      ["maxresults=x", "InvalidQueryParameterValue"],
      ["include=metadata,copies", "InvalidQueryParameterValue"],
    ] as const) {
      assertStorageRefused(await wire.send("GET", `/?comp=list&${query}`), 400, code);
    }
  });
});
