import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { decodeContinuation, decodeTableContinuation, encodeContinuation } from "./continuation.ts";
import { ServiceError } from "./errors.ts";

describe("Continuation tokens", () => {
  for (const [text, token] of [
    ["Smith", "1!8!U21pdGg-"],
    ["O'Brien", "1!12!TydCcmllbg--"],
    ["partition1-ô- -'-\"-%20-%27-pk", "1!40!cGFydGl0aW9uMS3DtC0gLSctIi0lMjAtJTI3LXBr"],
    ["p1", "1!4!cDE-"],
    ["people", "1!8!cGVvcGxl"],
    ["", "1!0!"],
    ["\ufeffa", undefined],
  ] as const) {
    it(`carry ${JSON.stringify(text)}`, () => {
      const encoded = encodeContinuation(text);
      if (token !== undefined) assert.equal(encoded, token);
      assert.equal(decodeContinuation(encoded), text);
    });
  }

  it("carry any key, in characters that need no escaping in a query", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (key) => {
        const token = encodeContinuation(key);
        assert.match(token, /^1!\d+![A-Za-z0-9*_-]*$/);
        assert.equal(decodeContinuation(token), key);
      }),
    );
  });

  it("are also accepted in plain base64", () => {
    assert.equal(encodeContinuation("~~>?"), "1!8!fn4*Pw--");
    assert.equal(decodeContinuation("1!8!fn4+Pw=="), "~~>?");
    assert.equal(encodeContinuation("~~??"), "1!8!fn4_Pw--");
    assert.equal(decodeContinuation("1!8!fn4/Pw=="), "~~??");
  });

  it("decode an empty token to an empty key", () => {
    assert.equal(decodeContinuation(""), "");
  });

  for (const token of [
    "x",
    "1!",
    "1!4",
    "2!4!cDE-",
    "1!5!cDE-",
    "1!3!cDE-",
    "1!4!cD E",
    "1!1!c",
    "1!4!c-E-",
    "1!4!_____",
    "1!4!//8=",
    "1!-4!cDE-",
    "1!4!cDE-\n",
    "1!9999999!cDE-",
  ]) {
    it(`refuse ${JSON.stringify(token)}`, () => {
      assert.throws(() => decodeContinuation(token), { code: "InvalidInput" });
    });
  }

  it("decode any text to a key or refuse it", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string().map((text) => `1!${text.length}!${text}`),
        ),
        (token) => {
          try {
            decodeContinuation(token);
          } catch (error) {
            assert.ok(error instanceof ServiceError && error.code === "InvalidInput");
          }
        },
      ),
    );
  });

  it("of the cloud may carry a table's creation stamp, which is ignored", () => {
    const token = "1!40!dGFibGUzNTg2MTlkMgEwMWQzNTljZGFiMWI3OTg1";
    assert.equal(decodeContinuation(token), "table358619d2\u000101d359cdab1b7985");
    assert.equal(decodeTableContinuation(token), "table358619d2");
    assert.equal(decodeTableContinuation("1!8!cGVvcGxl"), "people");
  });

  it("of the cloud with a row key are accepted", () => {
    const token = "1!36!cm93LcO0LSAtJyctIi0lMjAtJTI3LXJrOA--";
    assert.equal(decodeContinuation(token), "row-ô- -''-\"-%20-%27-rk8");
  });
});
