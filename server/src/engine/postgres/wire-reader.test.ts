import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { RowReader } from "./row-reader.ts";
import { WireReader } from "./wire-reader.ts";

/** A message as the server sends it. */
function message(code: string, body: Uint8Array): Buffer {
  const header = Buffer.alloc(5);
  header.write(code, "latin1");
  header.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([header, body]);
}

function row(...fields: Uint8Array[]): Buffer {
  const count = Buffer.alloc(2);
  count.writeInt16BE(fields.length);
  const parts = fields.flatMap((field) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(field.length);
    return [length, field];
  });
  return message("D", Buffer.concat([count, ...parts]));
}

function int8(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}

/** What a reader extracts from the chunks: code and body of each message. */
function read(chunks: readonly Buffer[]): string[] {
  const messages: string[] = [];
  const reader = new WireReader((code, bytes, start, end) => {
    messages.push(String.fromCharCode(code) + bytes.toString("latin1", start, end));
  });
  for (const chunk of chunks) reader.push(chunk);
  return messages;
}

describe("WireReader", () => {
  const stream = Buffer.concat([
    row(Buffer.from("key"), int8(7n), Buffer.alloc(300, 1)),
    message("C", Buffer.from("SELECT 1\0")),
    message("1", Buffer.alloc(0)),
    message("Z", Buffer.from("I")),
  ]);
  const whole = read([stream]);

  it("finds every message in one chunk", () => {
    assert.deepEqual(
      whole.map((each) => each[0]),
      ["D", "C", "1", "Z"],
    );
  });

  it("finds the same messages wherever the stream is split in two", () => {
    for (let at = 0; at <= stream.length; at++) {
      assert.deepEqual(read([stream.subarray(0, at), stream.subarray(at)]), whole, `cut at ${at}`);
    }
  });

  it("finds the same messages when every byte arrives separately", () => {
    assert.deepEqual(read(Array.from(stream, (byte) => Buffer.of(byte))), whole);
  });

  it("finds the same messages in any chunks, with any pauses", () => {
    const cuts = fc.array(fc.nat(stream.length), { maxLength: 12 });
    fc.assert(
      fc.property(cuts, fc.array(fc.boolean(), { minLength: 4 }), (places, pauses) => {
        const messages: string[] = [];
        const reader = new WireReader((code, bytes, start, end) => {
          messages.push(String.fromCharCode(code) + bytes.toString("latin1", start, end));
          if (pauses[messages.length - 1]) reader.pause();
        });
        let from = 0;
        for (const at of [...places.sort((a, b) => a - b), stream.length]) {
          reader.push(stream.subarray(from, at));
          from = at;
        }
        while (reader.isPaused) reader.resume();
        assert.deepEqual(messages, whole);
      }),
    );
  });

  it("delivers nothing while it is paused", () => {
    const codes: number[] = [];
    const reader = new WireReader((code) => {
      codes.push(code);
      reader.pause();
    });
    reader.push(stream);
    reader.push(stream);
    assert.equal(codes.length, 1);
    reader.resume();
    assert.equal(codes.length, 2);
  });

  it("refuses a message with an impossible length", () => {
    for (const length of [0, 3, 0x7fff_ffff]) {
      const header = Buffer.alloc(6);
      header.writeUInt32BE(length, 1);
      assert.throws(() => read([header]), /impossible length/);
    }
  });
});

describe("RowReader", () => {
  function readRow(format: 0 | 1, packet: Buffer): RowReader {
    const reader = new RowReader({ resultFormat: format });
    reader.begin(packet, 5);
    return reader;
  }

  it("reads bytes and numbers in binary form", () => {
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    for (const value of [0n, 1n, -1n, 255n, 2n ** 31n, 2n ** 32n, -(2n ** 40n), 2n ** 53n - 1n]) {
      const reader = readRow(1, row(everyByte, int8(value), Buffer.alloc(0)));
      assert.deepEqual(reader.bytes(), everyByte);
      assert.equal(reader.int8(), Number(value));
      assert.equal(reader.bytes().length, 0);
    }
  });

  it("reads bytes and numbers in text form", () => {
    const reader = readRow(0, row(Buffer.from("\\x00ff5c"), Buffer.from("-42"), Buffer.from("on")));
    assert.deepEqual(reader.bytes(), Buffer.of(0, 255, 0x5c));
    assert.equal(reader.int8(), -42);
    assert.equal(reader.text(), "on");
  });

  it("distinguishes null from an empty text", () => {
    const packet = row(Buffer.alloc(0), Buffer.alloc(0));
    packet.writeInt32BE(-1, 7);
    const reader = readRow(1, packet);
    assert.equal(reader.text(), undefined);
    assert.equal(reader.text(), "");
  });
});
