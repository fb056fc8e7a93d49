import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { parseMessageId, printMessageId, toMessageId } from "./message-id.ts";
import { recordKey } from "./message-keys.ts";
import { decodeMessage, encodeMessage, type Message } from "./message-record.ts";
import { isPresentReceipt, parsePopReceipt, printPopReceipt } from "./pop-receipt.ts";

const bytes = (count: number) =>
  fc
    .uint8Array({ minLength: count, maxLength: count })
    .map((each) => Buffer.from(each).toString("latin1"));
const receipt = fc.record(
  {
    generation: fc.integer({ min: 0, max: 255 }),
    expiresAt: fc.integer({ min: 0, max: Date.UTC(9999, 11, 31, 23, 59, 59) }),
    nonce: bytes(8),
  },
  { noNullPrototype: true },
);

describe("A pop receipt", () => {
  it("is encoded in characters that need no escaping, and decodes to its parts", () => {
    fc.assert(
      fc.property(receipt, (each) => {
        const text = printPopReceipt(each);
        assert.match(text, /^[A-Za-z0-9_-]{22}$/);
        assert.deepEqual(parsePopReceipt(text), each);
      }),
    );
  });

  it("is malformed if the service cannot have issued it", () => {
    const good = printPopReceipt({ generation: 0, expiresAt: 0, nonce: "12345678" });
    const wrong = ["", "garbage", good.slice(1), `${good}A`, `B${good.slice(1)}`, `${good}==`];
    for (const text of [...wrong, good.replace(/.$/, "*"), good.replace(/.$/, "x")]) {
      assert.equal(parsePopReceipt(text), undefined, text);
    }
    fc.assert(
      fc.property(fc.string({ maxLength: 30 }), (text) => {
        const parsed = parsePopReceipt(text);
        assert.ok(parsed === undefined || printPopReceipt(parsed) === text);
      }),
    );
  });

  it("is current only with the message's nonce and generation", () => {
    const message = messageOf({ generation: 2, nonce: "12345678" });
    assert.ok(isPresentReceipt(message, message));
    assert.ok(!isPresentReceipt({ ...message, nonce: "12345679" }, message));
    assert.ok(!isPresentReceipt({ ...message, generation: 1 }, message));
  });
});

describe("A message id", () => {
  it("is a random GUID, parsed in any case", () => {
    const id = toMessageId(Buffer.alloc(24, 0xff));
    assert.equal(printMessageId(id), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert.equal(parseMessageId("FFFFFFFF-ffff-4fff-BFFF-ffffffffffff"), id);
    for (const text of ["", "x", "ffffffffffff4fffbfffffffffffffff", `${printMessageId(id)}0`]) {
      assert.equal(parseMessageId(text), undefined);
    }
  });
});

describe("A stored message", () => {
  it("is decoded as it was encoded", () => {
    const message = messageOf({ text: Buffer.from("grüße") });
    const value = Uint8Array.from(encodeMessage(message));
    const key = recordKey(Uint8Array.of(1), message);
    const read = decodeMessage({ key, value, version: 1 });
    assert.deepEqual({ ...read, text: Buffer.from(read.text) }, message);
  });

  it("is not decoded from an entry without a message", () => {
    const key = recordKey(Uint8Array.of(1), messageOf({}));
    const entry = { key, value: new Uint8Array(40), version: 1 };
    assert.throws(() => decodeMessage(entry), /not a message/);
  });
});

function messageOf(parts: Partial<Message>): Message {
  return {
    id: "0123456789abcdef",
    expiresAt: 5,
    visibleAt: 3,
    sequence: Number.MAX_SAFE_INTEGER,
    insertedAt: 2,
    dequeueCount: 4_000_000_000,
    generation: 255,
    nonce: "12345678",
    text: Buffer.from(""),
    ...parts,
  };
}
