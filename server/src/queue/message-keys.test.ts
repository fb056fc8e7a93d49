import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { Key, KeyRange } from "../engine/engine.ts";
import { compareKeys } from "../engine/key-codec.ts";
import {
  expiredRange,
  queuePartition,
  type ReadyPlace,
  readReadyExpiry,
  readReadyKey,
  readRecordKey,
  readyKey,
  readyRange,
  recordKey,
  unexpiredRange,
  visibleRange,
} from "./message-keys.ts";

const partition = queuePartition(3, 70_000);
const time = fc.integer({ min: 0, max: Date.UTC(9999, 11, 31, 23, 59, 59) });
const place: fc.Arbitrary<ReadyPlace> = fc.record(
  {
    expiresAt: time,
    visibleAt: time,
    sequence: fc.maxSafeNat(),
    id: fc
      .uint8Array({ minLength: 16, maxLength: 16 })
      .map((id) => Buffer.from(id).toString("latin1")),
  },
  { noNullPrototype: true },
);

describe("Keys of messages", () => {
  it("decode to the parts they were encoded from", () => {
    fc.assert(
      fc.property(place, (each) => {
        const { expiresAt, id } = each;
        assert.deepEqual(readRecordKey(recordKey(partition, each)), { expiresAt, id });
        const ready = readyKey(partition, each);
        assert.deepEqual(readReadyKey(ready), each);
        assert.equal(readReadyExpiry(ready), expiresAt);
      }),
    );
  });

  it("sort ready messages by the time they became visible, then by insertion", () => {
    fc.assert(
      fc.property(place, place, (a, b) => {
        const expected = a.visibleAt - b.visibleAt || a.sequence - b.sequence;
        if (expected === 0) return;
        const found = compareKeys(readyKey(partition, a), readyKey(partition, b));
        assert.equal(Math.sign(found), Math.sign(expected));
      }),
    );
  });

  it("are in the ranges of visible, expired and unexpired messages as their times say", () => {
    fc.assert(
      fc.property(place, time, (each, now) => {
        const record = recordKey(partition, each);
        const ready = readyKey(partition, each);
        assert.equal(holds(visibleRange(partition, now), ready), each.visibleAt <= now);
        assert.equal(holds(expiredRange(partition, now), record), each.expiresAt <= now);
        assert.equal(holds(unexpiredRange(partition, now), record), each.expiresAt > now);
        assert.ok(holds(readyRange(partition), ready));
        assert.ok(!holds(readyRange(partition), record));
        assert.ok(!holds(unexpiredRange(partition, now), ready));
      }),
    );
  });
});

function holds({ start, end }: KeyRange, key: Key): boolean {
  return compareKeys(start, key) <= 0 && (end === undefined || compareKeys(key, end) < 0);
}
