import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { entityPath, isPlainKey } from "./entity-url.ts";

it("Plain keys, even empty ones, are unchanged in an entity's path", () => {
  assert.equal(entityPath("t1", "p-1_x.y", "r"), "t1(PartitionKey='p-1_x.y',RowKey='r')");
  assert.equal(entityPath("t1", "", ""), "t1(PartitionKey='',RowKey='')");
});

it("Keys are escaped as the service was seen to", () => {
  assert.equal(
    entityPath("t1", "partition1-ô- -'-\"-%20-%27-pk", "a b é%25"),
    "t1(PartitionKey='partition1-%C3%B4-%20-''-%22-%2520-%2527-pk',RowKey='a%20b%20%C3%A9%2525')",
  );
});

it("Unescaping a path and halving its quotes restores the key", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (key) => {
      const path = entityPath("t", key, "r");
      const literal = decodeURIComponent(path).slice(
        "t(PartitionKey='".length,
        -"',RowKey='r')".length,
      );
      assert.equal(literal.replaceAll("''", "'"), key);
      assert.match(path, /^[\x20-\x7e]*$/);
    }),
  );
});

it("Plain keys are known by their bytes, and every byte that is escaped makes a key odd", () => {
  const plain = Buffer.from("AZaz09_.-");
  assert.ok(isPlainKey(plain, 0, plain.length));
  for (let byte = 0; byte < 256; byte++) {
    const char = String.fromCharCode(byte);
    const path = entityPath("t", char, "");
    const isSame = path === `t(PartitionKey='${char}',RowKey='')`;
    for (const key of [[byte, 0x61], [0x61, byte], [byte]]) {
      if (!isSame) assert.ok(!isPlainKey(Uint8Array.from(key), 0, key.length), char);
    }
  }
});
