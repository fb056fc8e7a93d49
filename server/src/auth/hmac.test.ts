import assert from "node:assert/strict";
import crypto, { createHmac } from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { describe, it } from "node:test";
import fc from "fast-check";
import { HmacKey, isSignedBy } from "./hmac.ts";

describe("an HMAC with a precomputed key state", () => {
  const text = fc.string({ unit: "binary", maxLength: 300 });

  it("equals node:crypto's HMAC for any key and text", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 150 }),
        fc.array(text, { maxLength: 4 }),
        (bytes, texts) => {
          const key = new HmacKey(bytes);
          for (const one of texts) assertSame(key, bytes, one);
        },
      ),
    );
  });

  it("equals node:crypto's HMAC at lengths around the size of its buffer", () => {
    const bytes = Buffer.from("key");
    const key = new HmacKey(bytes);
    for (const unit of ["a", "é", "€", "𝒳"]) {
      for (const length of [2046, 2047, 2048, 2049, 2050, 5000]) {
        assertSame(key, bytes, unit.repeat(length / unit.length));
      }
    }
  });

  it("is not affected by a longer text that was signed before", () => {
    const bytes = Buffer.alloc(64, 9);
    const key = new HmacKey(bytes);
    key.sign("x".repeat(1000));
    assertSame(key, bytes, "y");
    assertSame(key, bytes, "");
  });
});

describe("a signature", () => {
  it("is compared in constant time", (context) => {
    const account = { name: "a", keys: [Buffer.from("one"), Buffer.from("two")] };
    const compare = context.mock.method(crypto, "timingSafeEqual");
    syncBuiltinESMExports();
    try {
      assert.equal(isSignedBy(account, "text", "A".repeat(44)), false);
      assert.equal(compare.mock.callCount(), 2);
      for (const { arguments: sides } of compare.mock.calls) {
        assert.deepEqual(
          sides.map(({ byteLength }) => byteLength),
          [44, 44],
        );
      }
    } finally {
      context.mock.restoreAll();
      syncBuiltinESMExports();
    }
  });

  it("may be made with any of the account's keys", () => {
    for (const key of ACCOUNT.keys) assert.equal(isSignedBy(ACCOUNT, "text", signed(key)), true);
    assert.equal(isSignedBy(ACCOUNT, "text", signed(Buffer.from("three"))), false);
    assert.equal(isSignedBy(ACCOUNT, "texts", signed(ACCOUNT.keys[0]!)), false);
  });

  it("is accepted in its one canonical spelling only", () => {
    const right = signed(ACCOUNT.keys[0]!);
    const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const lastDigit = digits.indexOf(right.at(-2)!);
    for (const [title, wrong] of [
      ["empty", ""],
      ["too short", right.slice(1)],
      ["too long", `A${right}`],
      ["without padding", right.slice(0, -1)],
      ["with bits beyond the last byte", `${right.slice(0, -2)}${digits[lastDigit + 1]}=`],
      ["with white space before it", ` ${right}`],
      ["with a line feed after it", `${right}\n`],
      ["with a character of the same low byte", right.replace("=", "\u013d")],
      ["with a longer character", right.replace("=", "\u20ac")],
    ] as const) {
      assert.equal(isSignedBy(ACCOUNT, "text", wrong), false, title);
    }
    assert.equal(isSignedBy(ACCOUNT, "text", right), true);
  });
});

const ACCOUNT = { name: "a", keys: [Buffer.from("one"), Buffer.from("two")] };

function signed(key: Uint8Array): string {
  return createHmac("sha256", key).update("text").digest("base64");
}

function assertSame(key: HmacKey, bytes: Uint8Array, text: string): void {
  const expected = createHmac("sha256", bytes).update(text, "utf8").digest("base64");
  assert.equal(key.sign(text), expected);
}
