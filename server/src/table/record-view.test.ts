import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { printDateTime, ticksOfMicros } from "@rowhouse/protocol/date-time";
import { TextBound } from "@rowhouse/protocol/json-string";
import { encodeName } from "@rowhouse/protocol/property-name";
import fc from "fast-check";
import { encodeRecord } from "./entity-record.ts";
import { RecordView } from "./record-view.ts";
import { decoded, type RandomProperty, randomEntities } from "./test-random-entities.ts";

describe("a view of an entity record", () => {
  it("finds every property of any entity and reads its value", () => {
    const view = new RecordView();
    fc.assert(
      fc.property(randomEntities, fc.nat(Number.MAX_SAFE_INTEGER), (entity, micros) => {
        view.reset(encodeRecord(decoded(entity), micros));
        assert.equal(view.partitionKey, entity.partitionKey);
        assert.equal(view.rowKey, entity.rowKey);
        assert.equal(view.comparePartitionKey(new TextBound(entity.partitionKey)), 0);
        assert.equal(view.compareRowKey(new TextBound(entity.rowKey)), 0);
        assert.equal(view.timestampTicks, ticksOfMicros(micros));
        assert.equal(view.count, entity.properties.length);
        for (const property of entity.properties) checkProperty(view, property);
        assert.equal(view.find(encodeName("notThere")), -1);
      }),
    );
  });

  it("finds names in any order, whatever was found last", () => {
    const view = new RecordView();
    const names = ["a", "ab", "b", "ba", "abc", "c"];
    view.reset(
      encodeRecord(
        decoded({
          partitionKey: "p",
          rowKey: "r",
          properties: names.map((name, i) => ({
            name,
            type: "Edm.Int32",
            value: i,
            json: String(i),
            annotated: false,
          })),
        }),
        1,
      ),
    );
    for (const first of names) {
      for (const second of [...names, "d", "", "abcd"]) {
        view.find(encodeName(first));
        assert.equal(view.find(encodeName(second)), names.indexOf(second));
      }
    }
  });

  it("finds nothing in an entity without properties", () => {
    const view = new RecordView();
    view.reset(encodeRecord(decoded({ partitionKey: "p", rowKey: "r", properties: [] }), 1));
    assert.equal(view.find(encodeName("a")), -1);
  });
});

function checkProperty(view: RecordView, { name, type, value, json }: RandomProperty): void {
  const index = view.find(encodeName(name));
  assert.ok(index >= 0, name);
  assert.equal(view.typeOf(index), type);
  assert.equal(view.jsonEquals(index, Buffer.from(json)), true);
  assert.equal(view.jsonEquals(index, Buffer.from(`${json} `)), false);
  assert.equal(view.jsonEquals(index, Buffer.from(`${json.slice(0, -1)} `)), false);
  switch (type) {
    case "Edm.String":
    case "Edm.Guid":
      assert.equal(view.text(index), value);
      assert.equal(view.compareText(index, new TextBound(String(value))), 0);
      assert.ok(view.compareText(index, new TextBound(`${value}0`)) < 0);
      break;
    case "Edm.Int32":
    case "Edm.Double":
    case "Edm.Boolean":
      assert.equal(view.number(index), value);
      break;
    case "Edm.Int64":
      assert.equal(view.bigint(index), value);
      break;
    case "Edm.DateTime": {
      const ticks = BigInt(String(value));
      const order = (ticks: bigint) =>
        Math.sign(view.compareDateTime(index, Buffer.from(printDateTime(ticks))));
      assert.deepEqual([order(ticks), order(ticks - 1n), order(ticks - 100n)], [0, 1, 1]);
      break;
    }
    case "Edm.Binary":
      assert.deepEqual(view.bytes(index), value);
      break;
  }
}
