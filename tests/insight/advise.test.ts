import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { systemClock } from "@rowhouse/server/clock";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { type Advice, advise } from "@rowhouse/server/insight/advice/advise";
import { adviceSarif, printAdvice } from "@rowhouse/server/insight/advice/print-advice";
import { FaultGate, parseFaultRules } from "@rowhouse/server/insight/fault-rules";
import { joinInsights } from "@rowhouse/server/insight/insight";
import { TrafficRecorder } from "@rowhouse/server/insight/traffic-recorder";
import { sampleTables } from "rowhouse/advise";
import { sendChangeset } from "../wire/table-batch.ts";
import { mistakenShop } from "./demo/mistaken-shop.ts";
import { repairedShop } from "./demo/repaired-shop.ts";
import { openTables, type Shop } from "./demo/shop.ts";
import { fillTable, withServer } from "./watched-server.ts";

describe("rowhouse advise on the demo shop", () => {
  it("finds its five design mistakes, each in its table, and nothing else", async () => {
    const advice = await adviceFor(mistakenShop);
    assert.deepEqual(advice.findings.map(({ rule, table }) => [rule, table.split("/")[1]]).sort(), [
      ["append-only-keys", "Events"],
      ["n-plus-one", "Orders"],
      ["read-before-write", "Stock"],
      ["scan", "Customers"],
      ["series-as-entities", "Readings"],
    ]);
    const text = printAdvice(advice);
    assert.match(text, /CustomersByEmail: PartitionKey = <email>/);
    assert.match(text, /Events: PartitionKey = <hash of the entity's id modulo 16/);
    assert.match(text, /cannot judge +Is Nagle's algorithm off/);
    const sarif = JSON.stringify(adviceSarif(advice, "1.0.0"));
    assert.equal(sarif.match(/"level":"warning"/g)?.length, 5);
  });

  it("finds nothing after they are repaired", async () => {
    const advice = await adviceFor(repairedShop);
    assert.deepEqual(advice.findings, []);
    assert.ok(advice.lines.every(({ verdict }) => verdict !== "findings"));
    assert.ok(advice.events > 300);
  });
});

describe("A sample of a table's data", () => {
  it("names the only partition if all data is in it, even beyond the sampled entities", async () => {
    const onlyPartitions = async (...partitionKeys: string[]) => {
      const engine = new MemoryEngine();
      let data: Awaited<ReturnType<typeof sampleTables>> | undefined;
      await withServer({ engine }, async ({ wire }) => {
        const keys = partitionKeys.map((key, i) => ({ PartitionKey: key, RowKey: `${i}` }));
        await fillTable(wire, "People", keys);
        data = await sampleTables(engine, 3);
      });
      return data?.get("devstoreaccount1/People")?.onlyPartition;
    };
    assert.equal(await onlyPartitions(), undefined);
    assert.equal(await onlyPartitions("a", "a"), "a");
    assert.equal(await onlyPartitions("a", "b"), undefined);
    assert.equal(await onlyPartitions("a", "a", "a", "a"), "a");
    assert.equal(await onlyPartitions("a", "a", "a", "a", "ab"), undefined);
  });
});

describe("rowhouse advise on refusals inside batches", () => {
  it("finds an operation that a client keeps retrying, with its table", async () => {
    const gate = new FaultGate(parseFaultRules("403 on DeleteEntity of People"));
    let recording = "";
    const recorder = new TrafficRecorder(systemClock, (bytes) => {
      recording += Buffer.from(bytes).toString();
    });
    await withServer({ gate, observer: recorder }, async ({ wire }) => {
      await fillTable(wire, "People", []);
      const path = "/people(PartitionKey='p',RowKey='r')";
      const headers = { "If-Match": "*" };
      for (let i = 0; i < 5; i++) await sendChangeset(wire, [{ method: "DELETE", path, headers }]);
    });
    recorder.end();
    const [retries, ...others] = advise(
      recording.split("\n"),
      new Map([
        ["devstoreaccount1/People", { entities: 0, samples: [], onlyPartition: undefined }],
      ]),
    ).findings;
    assert.deepEqual(others, []);
    assert.equal(retries?.rule, "retries");
    assert.equal(retries?.table, "devstoreaccount1/People");
    assert.match(
      retries?.evidence.join(),
      /^DELETE \/people\(.*.*: 403 AuthorizationFailure, sent again 4 times$/,
    );
  });
});

async function adviceFor(shop: Shop): Promise<Advice> {
  let now = Date.UTC(2026, 10, 20);
  let recording = "";
  const recorder = new TrafficRecorder({ now: () => now }, (bytes) => {
    recording += Buffer.from(bytes).toString();
  });
  const engine = new MemoryEngine();
  let advice: Advice | undefined;
  await withServer(
    {
      engine,
      insight: joinInsights([recorder]),
      observer: recorder,
      clock: { now: () => now },
      checkDate: false,
    },
    async ({ accountUrl }) => {
      const { name, keys } = DEVELOPMENT_ACCOUNT;
      const key = Buffer.from(keys[0]!).toString("base64");
      const connection = `DefaultEndpointsProtocol=http;AccountName=${name};AccountKey=${key};TableEndpoint=${accountUrl}`;
      const tables = openTables(connection, () => {
        now += 50;
      });
      await shop.run(tables);
      recorder.end();
      advice = advise(recording.split("\n"), await sampleTables(engine));
    },
  );
  assert.ok(advice);
  return advice;
}
