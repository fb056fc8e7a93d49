import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TYPE, WireWriter } from "./wire-writer.ts";

describe("WireWriter", () => {
  it("writes Parse with the types of the parameters", () => {
    const writer = new WireWriter();
    writer.parse("n", "SELECT $1", [TYPE.bytea]);
    assert.deepEqual(
      writer.take(),
      Buffer.from("P\0\0\0\x16n\0SELECT $1\0\0\x01\0\0\0\x11", "latin1"),
    );
  });

  it("writes Bind in binary form, followed by Execute and Sync", () => {
    const writer = new WireWriter();
    writer.beginBind("n", 2);
    writer.bytes(Uint8Array.of(0, 255));
    writer.int8(-1);
    writer.endBind(1);
    writer.execute(64);
    writer.sync();
    const bind = "B\0\0\0\x23\0n\0\0\x01\0\x01\0\x02\0\0\0\x02\0\xff\0\0\0\x08";
    const rest = "\xff\xff\xff\xff\xff\xff\xff\xff\0\x01\0\x01";
    const end = "E\0\0\0\x09\0\0\0\0\x40S\0\0\0\x04";
    assert.equal(writer.take().toString("latin1"), bind + rest + end);
  });

  it("writes arrays in PostgreSQL's binary form", () => {
    const writer = new WireWriter();
    writer.beginBind("", 1);
    const before = writer.bytesWritten;
    writer.bytesArray([Uint8Array.of(1), Uint8Array.of(2, 3)]);
    const array = writer.take().subarray(before);
    const header = "\0\0\0\x1f\0\0\0\x01\0\0\0\0\0\0\0\x11\0\0\0\x02\0\0\0\x01";
    assert.equal(array.toString("latin1"), `${header}\0\0\0\x01\x01\0\0\0\x02\x02\x03`);
    // The length in front counts everything behind it.
    assert.equal(array.readInt32BE(0), array.length - 4);
  });

  it("writes an empty array without dimensions", () => {
    const writer = new WireWriter();
    writer.beginBind("", 1);
    const before = writer.bytesWritten;
    writer.int8Array([]);
    assert.deepEqual(
      writer.take().subarray(before),
      Buffer.from("\0\0\0\x0c\0\0\0\0\0\0\0\0\0\0\0\x14", "latin1"),
    );
  });

  it("writes every safe integer exactly", () => {
    for (const value of [0, 1, -1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -(2 ** 53 - 1)]) {
      const writer = new WireWriter();
      writer.beginBind("", 1);
      const before = writer.bytesWritten;
      writer.int8(value);
      assert.equal(writer.take().readBigInt64BE(before + 4), BigInt(value));
    }
  });

  it("writes into the same buffer again after reuse", () => {
    const writer = new WireWriter();
    const write = (fill: number) => {
      writer.beginBind("name", 1);
      writer.bytes(Buffer.alloc(100_000, fill));
      writer.endBind(1);
      return writer.take();
    };
    const first = write(1);
    writer.reuse();
    const second = write(2);
    assert.equal(second.byteOffset, first.byteOffset);
    assert.equal(second.buffer, first.buffer);
    assert.deepEqual(second.subarray(-100_010, -10), write(2).subarray(-100_010, -10));
  });

  it("does not keep a buffer that grew for one large value", () => {
    const writer = new WireWriter();
    const write = (bytes: number) => {
      writer.beginBind("name", 1);
      writer.bytes(Buffer.alloc(bytes));
      writer.endBind(1);
      return writer.take();
    };
    const large = write(1_000_000);
    writer.reuse();
    assert.notEqual(write(10).buffer, large.buffer);
  });

  it("leaves taken bytes unchanged by later writes", () => {
    const writer = new WireWriter();
    const taken: { bytes: Buffer; copy: Buffer }[] = [];
    for (let round = 0; round < 50; round++) {
      writer.beginBind("name", 1);
      writer.bytes(Buffer.alloc(round * 700, round));
      writer.endBind(1);
      const bytes = writer.take();
      taken.push({ bytes, copy: Buffer.from(bytes) });
    }
    for (const { bytes, copy } of taken) assert.deepEqual(bytes, copy);
  });
});
