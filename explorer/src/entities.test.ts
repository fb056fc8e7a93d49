import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { parseEntities } from "./entities.ts";
import { toJson } from "./entity-json.ts";

const ENTITY = {
  text: { type: "Edm.String", text: 'quote " and \\ and é and \u2028' },
  none: { type: "Edm.String", text: "" },
  small: { type: "Edm.Int32", text: "-5" },
  large: { type: "Edm.Int64", text: "9007199254740993" },
  whole: { type: "Edm.Double", text: "1.0" },
  odd: { type: "Edm.Double", text: "NaN" },
  flag: { type: "Edm.Boolean", text: "true" },
  when: { type: "Edm.DateTime", text: "2020-01-01T00:00:00.0000001Z" },
  id: { type: "Edm.Guid", text: "debc44d5-1f2c-4b3a-9d8e-0123456789ab" },
  bytes: { type: "Edm.Binary", text: "AQID" },
} as const;

describe("Reading entities", () => {
  it("keeps the type and every digit of each value, in the grid and in copied JSON", () => {
    const row = { partitionKey: "p", rowKey: "<img>", cells: new Map(Object.entries(ENTITY)) };
    const json = toJson(row);
    assert.deepEqual(parseEntities(json), [row]);
    // The service reads it as the same entity.
    const decoded = decodeEntity(Buffer.from(json));
    assert.equal(decoded.properties.length, row.cells.size);
    const list = `{"odata.metadata":"m","value":[${json},${json}]}`;
    assert.deepEqual(parseEntities(list), [row, row]);
    assert.deepEqual(parseEntities('{"value":[]}'), []);
  });

  it("knows how long a cut value was", () => {
    const json = '{"value":[{"PartitionKey":"p","RowKey":"r","t":"ab","t@rowhouse.length":900}]}';
    const [row] = parseEntities(json);
    assert.deepEqual(row?.cells.get("t"), { type: "Edm.String", text: "ab", length: 900 });
  });

  it("reads 32,000 escapes without running out of memory", () => {
    const text = '"\\'.repeat(32_000);
    const json = JSON.stringify({ value: [{ PartitionKey: "p", RowKey: "r", t: text }] });
    assert.equal(parseEntities(json)[0]?.cells.get("t")?.text, text);
  });

  it("refuses what is no such answer", () => {
    for (const json of ["", "<html>", '{"value":[{]}', '{"value":[{"a":1}'])
      assert.throws(() => parseEntities(json), SyntaxError, json);
  });
});
