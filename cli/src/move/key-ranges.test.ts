import assert from "node:assert/strict";
import { it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { divideTable } from "./key-ranges.ts";
import { withoutEtag } from "./raw-entity.ts";
import { readPages } from "./read-table.ts";
import { change, fill } from "./test-entities.ts";
import { startTableServer } from "./test-table-server.ts";

const TABLES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  empty: [],
  single: [["only", "one"]],
  prefixed: Array.from({ length: 60 }, (_, i) => [
    `customer-${String(i * 17).padStart(4, "0")}`,
    "x",
  ]),
  onePartition: Array.from({ length: 60 }, (_, i) => [
    "all",
    String.fromCharCode(0x41 + (i % 26)) + i,
  ]),
  unusual: ["", "'", "''a", "é", "漢字", "😀", "~", "zz"].map((key) => [key, key]),
  nested: ["a", "ab", "abc", "abcd"].map((key) => [key, "x"]),
};

for (const [name, keys] of Object.entries(TABLES)) {
  it(`The ranges of a table have every entity once: ${name}`, async () => {
    await using server = await startTableServer();
    const connection = server.connect();
    await fill(
      connection,
      name,
      keys.map(([partition, row]) => change(partition, row)),
    );
    const found: string[] = [];
    const ranges = await divideTable(connection, name, undefined, 8);
    for (const filter of ranges) {
      for await (const page of readPages(connection, { table: name, filter })) {
        for (const entity of page.entities) {
          const { partitionKey, rowKey } = decodeEntity(withoutEtag(entity));
          found.push(JSON.stringify([partitionKey, rowKey]));
        }
      }
    }
    assert.deepEqual(found.sort(), keys.map((pair) => JSON.stringify(pair)).sort());
    if (name === "prefixed" || name === "onePartition") assert.ok(ranges.length > 3);
  });
}
