import assert from "node:assert/strict";
import crypto, { createHmac } from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { describe, it } from "node:test";
import fc from "fast-check";
import { decodeSignature, HmacKey, isSignedBy } from "./hmac.ts";

describe("an HMAC with its key worked in ahead", () => {
  const text = fc.string({ unit: "binary", maxLength: 300 });

  it("is the HMAC of the platform, for any key and text", () => {
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

  it("is so at every length around what its buffer holds", () => {
    const bytes = Buffer.from("key");
    const key = new HmacKey(bytes);
    for (const unit of ["a", "é", "€", "𝒳"]) {
      for (const length of [2046, 2047, 2048, 2049, 2050, 5000]) {
        assertSame(key, bytes, unit.repeat(length / unit.length));
      }
    }
  });

  it("leaves nothing of a long text in a short one", () => {
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
      assert.ok(!isSignedBy(account, "text", Buffer.alloc(32)));
      assert.equal(compare.mock.callCount(), 2);
      for (const { arguments: sides } of compare.mock.calls) {
        assert.deepEqual(
          sides.map(({ byteLength }) => byteLength),
          [32, 32],
        );
      }
    } finally {
      context.mock.restoreAll();
      syncBuiltinESMExports();
    }
  });

  it("is 32 bytes in the one spelling of base64", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const text = Buffer.from(bytes).toString("base64");
        assert.deepEqual(decodeSignature(text), Buffer.from(bytes));
      }),
    );
  });

  const right = `${"A".repeat(42)}E=`;
  for (const [title, wrong] of [
    ["empty", ""],
    ["too short", Buffer.alloc(31).toString("base64")],
    ["too long", Buffer.alloc(33).toString("base64")],
    ["without padding", right.slice(0, -1)],
    ["with bits beyond the last byte", right.replace("E=", "F=")],
    ["in the alphabet of URLs", `-${right.slice(1)}`],
    ["with white space", ` ${right.slice(1)}`],
    ["with a line feed after it", `${right}\n`],
  ] as const) {
    it(`is refused when it is ${title}`, () => {
      assert.ok(decodeSignature(right));
      assert.equal(decodeSignature(wrong), undefined);
    });
  }
});

function assertSame(key: HmacKey, bytes: Uint8Array, text: string): void {
  const expected = createHmac("sha256", bytes).update(text, "utf8").digest("hex");
  assert.equal(Buffer.from(key.sign(text)).toString("hex"), expected);
}
