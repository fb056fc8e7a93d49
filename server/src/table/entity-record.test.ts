import assert from "node:assert/strict";
import { it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { encodeRecord, recordEtag, recordOf, recordTimestamp } from "./entity-record.ts";
import { RecordView } from "./record-view.ts";

const MICROS = Date.UTC(2021, 0, 6, 1, 1, 31) * 1000 + 500_000;

it("An entity record is laid out as the storage format page draws it", () => {
  const record = encode(
    '{"PartitionKey":"p","RowKey":"\\"r","a":1,"bc@odata.type":"Edm.Int64","bc":"-2"}',
  );
  assert.deepEqual(
    [...record],
    [
      1, // Format.
      2, // Flags: some property is annotated.
      2, // Properties.
      ...[0xe0, 0x31, 0x22, 0xdd, 0x30, 0xb8, 0x05, 0x00], // Timestamp.
      ...[1, 0], // Length of the PartitionKey …
      ...[3, 0], // … and of the RowKey, quote escaped.
      ...[1, 0x10, 6, 0], // Edm.Int32, a name of 1 byte, up to 6.
      ...[2, 0x20, 44, 0], // Edm.Int64, a name of 2 bytes, up to 44.
      ...Buffer.from('p\\"r,"a":1,"bc@odata.type":"Edm.Int64","bc":"-2"'),
    ],
  );
  assert.equal(record.readBigUInt64LE(3), BigInt(MICROS));
});

it("An entity record has wide offsets when its text exceeds 65,535 bytes", () => {
  const text = (length: number) => `"${"x".repeat(length)}"`;
  const first = 32_761;
  for (const [bytes, wide] of [
    [65_535, 0],
    [65_536, 1],
  ] as const) {
    const second = bytes - first - ',"a":"","b":""'.length;
    const record = encode(
      `{"PartitionKey":"p","RowKey":"r","a":${text(first)},"b":${text(second)}}`,
    );
    assert.equal(record[1], wide);
    const view = new RecordView();
    view.reset(record);
    assert.equal(view.text(view.find(Buffer.from("a"))).length, first);
    assert.equal(view.text(view.find(Buffer.from("b"))).length, second);
  }
});

it("An entity record contains its Timestamp, from which its ETag is made", () => {
  const record = encode('{"PartitionKey":"p","RowKey":"r"}');
  assert.equal(recordTimestamp(record), MICROS);
  assert.equal(recordEtag(record), "W/\"datetime'2021-01-06T01%3A01%3A31.5Z'\"");
  assert.equal(
    recordEtag(recordOf({ value: record, version: MICROS + 1 })),
    "W/\"datetime'2021-01-06T01%3A01%3A31.500001Z'\"",
  );
  assert.equal(recordEtag(record), "W/\"datetime'2021-01-06T01%3A01%3A31.5Z'\"");
  const largest = recordOf({ value: record, version: Number.MAX_SAFE_INTEGER });
  assert.equal(recordTimestamp(largest), Number.MAX_SAFE_INTEGER);
});

it("An entity record is copied with a new Timestamp when the engine raised its version", () => {
  const record = encode('{"PartitionKey":"p","RowKey":"r","a":"x"}');
  assert.equal(recordOf({ value: record, version: MICROS }), record);
  const raised = recordOf({ value: record, version: MICROS + 1 });
  assert.equal(recordTimestamp(record), MICROS);
  assert.equal(recordTimestamp(raised), MICROS + 1);
  assert.deepEqual(raised.subarray(11), Uint8Array.from(record.subarray(11)));
});

it("An entity record contains its keys", () => {
  for (const [partitionKey, rowKey] of [
    ["", ""],
    ["O'Brien", "a b é%25"],
    ['"', "😀".repeat(512)],
    ["k".repeat(1024), "名".repeat(1024)],
  ] as const) {
    const body = JSON.stringify({ PartitionKey: partitionKey, RowKey: rowKey, v: 1 });
    const view = new RecordView();
    view.reset(encode(body));
    assert.equal(view.partitionKey, partitionKey);
    assert.equal(view.rowKey, rowKey);
  }
});

it("An entity record of a later format is refused", () => {
  const record = encode('{"PartitionKey":"p","RowKey":"r"}');
  record[0] = 2;
  assert.throws(
    () => new RecordView().reset(record),
    /The entity record has format 2; this release reads format 1\./,
  );
});

function encode(body: string): Buffer {
  return Buffer.from(encodeRecord(decodeEntity(Buffer.from(body)), MICROS));
}
