import assert from "node:assert/strict";
import { after, it } from "node:test";
import { LIMITS } from "@rowhouse/protocol/limits";
import { sendChangeset } from "./table-batch.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());

it("A page ends when its JSON is long, however short its entities are", async () => {
  const table = await target.table();
  const COUNT = 300;
  for (let at = 0; at < COUNT; at += 100) {
    const inserts = Array.from({ length: 100 }, (_, i) => ({
      method: "POST",
      path: `/${table}`,
      body: { PartitionKey: "p", RowKey: String(at + i) },
    }));
    await sendChangeset(target.wire, inserts);
  }
  // Each entity has a null for every one of them.
  const names = Array.from({ length: 252 }, (_, i) => `${i}`.padStart(250, "N"));
  const found: string[] = [];
  for (let next = ""; ; ) {
    const path = `/${table}()?$select=RowKey,${names.slice(1)}${next}`;
    const answer = await target.wire.send("GET", path);
    assert.equal(answer.status, 200);
    assert.ok(answer.body.length < LIMITS.pageJsonBytesMax + 100_000);
    found.push(...answer.items().map(({ RowKey }) => String(RowKey)));
    const row = answer.header("x-ms-continuation-nextrowkey");
    if (row === undefined) break;
    next = `&NextPartitionKey=${answer.header("x-ms-continuation-nextpartitionkey")}&NextRowKey=${row}`;
  }
  assert.equal(new Set(found).size, COUNT);
  assert.equal(found.length, COUNT);
});
