import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ServiceError } from "./errors.ts";
import {
  StructuredMessageReader,
  StructuredMessageWriter,
  structuredBytes,
} from "./structured-message.ts";

const HELLO = Buffer.from(
  "0132000000000000000100010001000b0000000000000068656c6c6f20776f726c64be8eeaf6c3d5298dbe8eeaf6c3d5298d",
  "hex",
);

describe("A structured message", () => {
  it("is written like the published example", () => {
    assert.deepEqual(frame([Buffer.from("hello world")]), HELLO);
    assert.equal(structuredBytes(11), 50);
  });

  it("is read however it is split", () => {
    for (let cut = 0; cut <= HELLO.length; cut++) {
      const parts = [HELLO.subarray(0, cut), HELLO.subarray(cut)];
      assert.equal(unframe(parts, HELLO.length).toString(), "hello world");
    }
  });

  it("without content is written as one empty segment, and read from one or none", () => {
    const one = `0127000000000000000100010001000000000000000000${"00".repeat(16)}`;
    assert.equal(frame([]).toString("hex"), one);
    assert.equal(structuredBytes(0), 39);
    for (const hex of [one, `01150000000000000001000000${"00".repeat(8)}`]) {
      const message = Buffer.from(hex, "hex");
      assert.equal(unframe([message], message.length).length, 0);
    }
  });

  it("has segments of 4 MiB", () => {
    const content = Buffer.alloc(9 * 1_048_576, 7);
    const message = frame([content.subarray(0, 5_000_000), content.subarray(5_000_000)]);
    assert.equal(message.readUInt16LE(11), 3);
    assert.equal(message.length, content.length + 13 + 3 * 18 + 8);
    assert.deepEqual(unframe([message], message.length), content);
  });

  it("is refused if a byte is wrong, missing or added", () => {
    fc.assert(
      fc.property(fc.nat(HELLO.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const damaged = Buffer.from(HELLO);
        damaged[at] = damaged[at]! ^ change;
        assert.match(
          codeOf(() => unframe([damaged], damaged.length)),
          /InvalidInput|Crc64Mismatch/,
        );
      }),
    );
    for (let end = 0; end < HELLO.length; end++) {
      assert.equal(
        codeOf(() => unframe([HELLO.subarray(0, end)], HELLO.length)),
        "InvalidInput",
      );
    }
    assert.equal(
      codeOf(() => unframe([HELLO, Buffer.of(0)], HELLO.length)),
      "InvalidInput",
    );
    assert.equal(
      codeOf(() => unframe([HELLO], HELLO.length + 1)),
      "InvalidInput",
    );
  });

  it("is refused with the checksum that was sent if its content is damaged", () => {
    const damaged = Buffer.from(HELLO);
    damaged[25] = 0x48;
    try {
      unframe([damaged], damaged.length);
      assert.fail("It was read.");
    } catch (error) {
      assert.ok(error instanceof ServiceError);
      assert.deepEqual(error.details[0], ["UserSpecifiedCrc64", "vo7q9sPVKY0="]);
    }
  });
});

function frame(parts: readonly Uint8Array[]): Buffer {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  const writer = new StructuredMessageWriter(bytes);
  return Buffer.concat([
    writer.begin(),
    ...parts.flatMap((each) => [...writer.write(each)]),
    writer.end(),
  ]);
}

function unframe(parts: readonly Uint8Array[], messageBytes: number): Buffer {
  const reader = new StructuredMessageReader(messageBytes);
  const content = parts.flatMap((part) => [...reader.read(part)]);
  reader.end();
  return Buffer.concat(content);
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof ServiceError) return error.code;
    throw error;
  }
  return "nothing";
}
