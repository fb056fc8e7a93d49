import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EdmType } from "./edm.ts";
import { type EntityFormat, type FileRecord, readRecords } from "./entity-files.ts";

const HEAD = "PartitionKey,RowKey,N";

async function read(
  text: string | Uint8Array,
  format: EntityFormat,
  types?: ReadonlyMap<string, EdmType>,
): Promise<string[]> {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += 5) yield bytes.subarray(at, at + 5);
  }
  const shown = ({ number, body, fault }: FileRecord) =>
    `${number} ${fault ?? new TextDecoder().decode(body)}`;
  const records: string[] = [];
  const options = { format, name: "a.csv", ...(types && { types }) };
  for await (const record of readRecords(pieces(), options)) records.push(shown(record));
  return records;
}

describe("A file of entities", () => {
  it("begins with a byte order mark or not, and ends with a line break or not", async () => {
    for (const mark of ["", "\ufeff"]) {
      assert.deepEqual(await read(`${mark}{"a":1}\n\n {"b":2}`, "jsonl"), [
        '1 {"a":1}',
        '3  {"b":2}',
      ]);
      assert.deepEqual(await read(`${mark}"PartitionKey","RowKey"\r\na,"b\r\nc"\r\n`, "csv"), [
        '2 {"PartitionKey":"a","RowKey":"b\\r\\nc"}',
      ]);
    }
  });

  it("of CSV without types has strings, or what its reader says the columns are", async () => {
    const text = `${HEAD}\na,1,7\na,2,\na,3,x\n`;
    assert.deepEqual(await read(text, "csv"), [
      '2 {"PartitionKey":"a","RowKey":"1","N":"7"}',
      '3 {"PartitionKey":"a","RowKey":"2"}',
      '4 {"PartitionKey":"a","RowKey":"3","N":"x"}',
    ]);
    assert.deepEqual(await read(text, "csv", new Map([["N", "Edm.Int64"]])), [
      '2 {"PartitionKey":"a","RowKey":"1","N@odata.type":"Edm.Int64","N":"7"}',
      '3 {"PartitionKey":"a","RowKey":"2"}',
      '4 {"PartitionKey":"a","RowKey":"3","N@odata.type":"Edm.Int64","N":"x"}',
    ]);
  });

  it("is faulty in the rows whose quotes or bytes are, and nowhere else", async () => {
    const bytes = new TextEncoder().encode(`${HEAD}\na,1,x"y\na,2,?\na,3,z\n`);
    bytes[bytes.indexOf("?".charCodeAt(0))] = 0xff;
    assert.deepEqual(await read(bytes, "csv"), [
      "2 its quotes are not those of CSV: a cell begins and ends with one, or has none.",
      "3 it is not UTF-8.",
      '4 {"PartitionKey":"a","RowKey":"3","N":"z"}',
    ]);
  });

  it("names the line where a record begins, also behind those that have several", async () => {
    assert.deepEqual(await read(`${HEAD}\na,"1\n\n2",x\r\n\na,2\na,3,y`, "csv"), [
      '2 {"PartitionKey":"a","RowKey":"1\\n\\n2","N":"x"}',
      "6 2 cells, where the first line names 3 columns.",
      '7 {"PartitionKey":"a","RowKey":"3","N":"y"}',
    ]);
  });

  it("is refused without the columns of the keys, and where a record never ends", async () => {
    await assert.rejects(read("", "csv"), /a\.csv is empty/);
    await assert.rejects(read("PartitionKey,N\n", "csv"), /has no column RowKey; its columns are/);
    await assert.rejects(
      read('PartitionKey,"RowKey', "csv"),
      /The first line of a\.csv: its quotes/,
    );
    const endless = new Uint8Array(17 * 2 ** 20).fill(0x61);
    async function* whole() {
      yield endless;
    }
    const records = readRecords(whole(), { format: "jsonl", name: "a.jsonl" });
    await assert.rejects(records.next(), /The record on line 1 of a\.jsonl is longer than 16 MiB/);
  });
});
