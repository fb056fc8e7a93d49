import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import fc from "fast-check";
import { encodeRecord, recordTimestamp } from "./entity-record.ts";
import { mergeRecord } from "./merge-record.ts";
import { RecordView } from "./record-view.ts";
import { annotatedMembers, decoded, randomProperties } from "./test-random-entities.ts";

const KEYS = { partitionKey: "p", rowKey: "r" };

describe("a merge", () => {
  it("replaces properties in place, adds new ones at the end and keeps the rest", () => {
    check('"a":1,"b":"x","c":2.5', '"d":true,"b":"yy"', ',"a":1,"b":"yy","c":2.5,"d":true');
  });

  it("may change a property's type", () => {
    check(
      '"a":1,"b":2',
      '"a":"5","a@odata.type":"Edm.Int64"',
      ',"a@odata.type":"Edm.Int64","a":"5","b":2',
    );
    check('"a":"5","a@odata.type":"Edm.Int64"', '"a":1', ',"a":1');
  });

  it("keeps a property that the change sets to null", () => {
    check('"a":1,"b":2', '"a":null', ',"a":1,"b":2');
  });

  it("distinguishes names by case", () => {
    check('"a":1', '"A":2', ',"a":1,"A":2');
  });

  it("sets the given Timestamp", () => {
    const current = encodeRecord(decode('"a":1'), 5);
    assert.equal(recordTimestamp(mergeRecord(current, decode(""), 6)), 6);
  });

  it("equals merging two maps and encoding the result, for any properties", () => {
    fc.assert(
      fc.property(randomProperties, randomProperties, (before, change) => {
        const expected = new Map(before.map((property) => [property.name, property]));
        for (const property of change) expected.set(property.name, property);
        const current = encodeRecord(decoded({ ...KEYS, properties: before }), 1);
        const merged = mergeRecord(current, decoded({ ...KEYS, properties: change }), 2);
        assert.equal(
          propertiesOf(merged),
          [...expected.values()].map((property) => `,${annotatedMembers(property)}`).join(""),
        );
        assert.deepEqual(
          merged,
          encodeRecord(decoded({ ...KEYS, properties: [...expected.values()] }), 2),
        );
      }),
    );
  });
});

describe("the limits of a merged entity", () => {
  it("allow 252 properties", () => {
    const many = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, i) => `"${prefix}${i}":${i}`).join(",");
    const current = encodeRecord(decode(many("a", 250)), 1);
    mergeRecord(current, decode(many("b", 2)), 2);
    mergeRecord(current, decode(many("a", 250)), 2);
    refuse(() => mergeRecord(current, decode(many("b", 3)), 2), "TooManyProperties");
  });

  it("allow entities of 1 MiB", () => {
    const text = (name: string, length: number) => `"${name}":"${"x".repeat(length)}"`;
    const most = Array.from({ length: 15 }, (_, i) => text(`t${10 + i}`, 32_768)).join(",");
    const current = encodeRecord(decode(most), 1);
    const room =
      LIMITS.entityBytesMax - (4 + 2 * 2 + 15 * (8 + 2 * 3 + 2 * 32_768 + 4)) - (8 + 2 + 4);
    mergeRecord(current, decode(text("t", room / 2)), 2);
    refuse(() => mergeRecord(current, decode(text("t", room / 2 + 1)), 2), "EntityTooLarge");
    mergeRecord(current, decode(text("t10", 32_768)), 2);
  });

  function refuse(action: () => void, code: "TooManyProperties" | "EntityTooLarge"): void {
    assert.throws(action, new ServiceError(code));
  }
});

function check(before: string, change: string, expected: string): void {
  const current = encodeRecord(decode(before), 1);
  const copy = Uint8Array.from(current);
  assert.equal(propertiesOf(mergeRecord(current, decode(change), 2)), expected);
  assert.deepEqual(Uint8Array.from(current), copy, "The current record is unchanged.");
}

function decode(members: string) {
  return decodeEntity(Buffer.from(`{${members}}`), KEYS);
}

function propertiesOf(record: Uint8Array): string {
  const view = new RecordView();
  view.reset(record);
  return Buffer.from(record.subarray(view.propertiesAt)).toString();
}
