import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { decodeJsonString, decodeUtf8, encodeJsonString } from "./json-string.ts";

it("A string is escaped only where JSON requires it", () => {
  assert.equal(
    encodeJsonString("a\"\\/\n\u0001é😀\u2028'<&"),
    '"a\\"\\\\/\\n\\u0001é😀\u2028\'<&"',
  );
});

it("Every text is read back from its JSON, even unpaired surrogates", () => {
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

it("A byte order mark within a text is kept", () => {
  const bytes = new TextEncoder().encode("\ufeffa");
  assert.equal(decodeUtf8(bytes, 0, bytes.length), "\ufeffa");
});
