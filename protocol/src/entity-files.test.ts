import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EdmType } from "./edm.ts";
import {
  type EntityFormat,
  type FileRecord,
  type KeyColumns,
  readRecords,
} from "./entity-files.ts";

const HEAD = "PartitionKey,RowKey,N";

async function read(
  text: string | Uint8Array,
  format: EntityFormat,
  types?: ReadonlyMap<string, EdmType>,
  keys?: KeyColumns,
): Promise<string[]> {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += 5) yield bytes.subarray(at, at + 5);
  }
  const shown = ({ number, body, fault }: FileRecord) =>
    `${number} ${fault ?? new TextDecoder().decode(body)}`;
  const records: string[] = [];
  const options = { format, name: "a.csv", ...(types && { types }), ...(keys && { keys }) };
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

describe("A file of entities without keys", () => {
  const keyed = (text: string, format: EntityFormat, keys: KeyColumns) =>
    read(text, format, undefined, keys);
  const keys = { PartitionKey: "year", RowKey: "title" };

  it("gets them from columns, which stay properties with every digit and type", async () => {
    const lines = '{"title":"Dune","year":1984,"n":1.0}\n {"year":"x","title":true}\n';
    assert.deepEqual(await keyed(lines, "jsonl", keys), [
      '1 {"PartitionKey":"1984","RowKey":"Dune","title":"Dune","year":1984,"n":1.0}',
      '2 {"PartitionKey":"x","RowKey":"true","year":"x","title":true}',
    ]);
    const typed = "title,year,year@type\nDune,01984,Int32\n";
    assert.deepEqual(await keyed(typed, "csv", keys), [
      '2 {"PartitionKey":"01984","RowKey":"Dune","title":"Dune","year@odata.type":"Edm.Int32","year":1984}',
    ]);
    assert.deepEqual(await keyed("id,n\nx,7\n", "csv", { PartitionKey: "id", RowKey: "id" }), [
      '2 {"PartitionKey":"x","RowKey":"x","id":"x","n":"7"}',
    ]);
    assert.deepEqual(await keyed('{"RowKey":"r","id":"x"}', "jsonl", { PartitionKey: "id" }), [
      '1 {"PartitionKey":"x","RowKey":"r","id":"x"}',
    ]);
  });

  it("is refused where it has no such column, or has the keys itself", async () => {
    await assert.rejects(
      keyed("title,Timestamp\n", "csv", keys),
      /has no column year that could become its PartitionKey; it has title\./,
    );
    await assert.rejects(
      keyed("title,year,RowKey\n", "csv", keys),
      /has a column RowKey, so title cannot become it\./,
    );
    await assert.rejects(
      keyed("title,year\n", "csv", { PartitionKey: "year" }),
      /has no column RowKey; its columns are title, year\. `rowhouse import --row-key COLUMN` makes one of them the RowKey\./,
    );
    assert.deepEqual(await keyed('{"year":1,"title":"a","RowKey":"r"}', "jsonl", keys), [
      "1 it has a RowKey of its own, so title cannot become it.",
    ]);
  });

  it("is faulty in the records without a value that can be a key", async () => {
    const of = (what: string) => `year, which is to become its PartitionKey${what}`;
    const values = [
      ['"title":"a"', `it has no value of ${of(".")}`],
      ['"year":null', `it has no value of ${of(".")}`],
      ['"year":""', `it has no value of ${of(".")}`],
      ['"year":[1]', of(", is no string, number, true or false.")],
      [
        '"year":12345678901234567890',
        of(", is a number with too many digits; a string keeps them."),
      ],
      ['"__proto__":{"year":"x"}', `it has no value of ${of(".")}`],
    ] as const;
    const text = values.map(([member]) => `{${member}}`).join("\n");
    assert.deepEqual(
      await keyed(text, "jsonl", { PartitionKey: "year" }),
      values.map(([, fault], i) => `${i + 1} ${fault}`),
    );
    assert.deepEqual(await keyed("year,title\n,Dune\n", "csv", keys), [
      `2 it has no value of ${of(".")}`,
    ]);
    // What is no entity at all is passed on to who says so.
    assert.deepEqual(await keyed("[1]\n{", "jsonl", keys), ["1 [1]", "2 {"]);
  });

  it("is faulty in the records whose keys an earlier one has", async () => {
    const text = "year,title\n1984,Dune\n1984,Gremlins\n1985,Dune\n1984,Dune\n";
    assert.deepEqual((await keyed(text, "csv", keys)).slice(2), [
      '4 {"PartitionKey":"1985","RowKey":"Dune","year":"1985","title":"Dune"}',
      '5 line 2 has the same keys, "1984" and "Dune". Keys differ in each entity.',
    ]);
    const line = '{"year":1984,"title":"Dune"}';
    assert.match((await keyed(`${line}\n${line}`, "jsonl", keys))[1]!, /^2 line 1 has the same/);
    // Keys of the file's own are its writer's affair: the last entity wins, as ever.
    assert.equal((await read(`${HEAD}\na,1,x\na,1,y\n`, "csv")).length, 2);
  });
});
