import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { decodeJsonString, decodeUtf8, encodeJsonString } from "./json-string.ts";

it("escapes what JSON must and nothing else", () => {
  assert.equal(
    encodeJsonString("a\"\\/\n\u0001é😀\u2028'<&"),
    '"a\\"\\\\/\\n\\u0001é😀\u2028\'<&"',
  );
});

it("reads back every text, half characters included", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      fc.constantFrom("", "\ud800", "\udc00x"),
      (text, half) => {
        const bytes = new TextEncoder().encode(`[${encodeJsonString(text + half)}]`);
        assert.equal(decodeJsonString(bytes, 1, bytes.length - 1), text + half);
      },
    ),
  );
});

it("keeps a byte order mark that is part of the text", () => {
  const bytes = new TextEncoder().encode("\ufeffa");
  assert.equal(decodeUtf8(bytes, 0, bytes.length), "\ufeffa");
});
