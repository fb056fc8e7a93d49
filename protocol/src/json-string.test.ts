import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { decodeJsonString, decodeUtf8, encodeJsonString, TextBound } from "./json-string.ts";

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

it("A stored string is ordered as JavaScript orders texts, decoded or not", () => {
  // Characters on both sides of each limit, those that are escaped, and pairs that begin alike.
  const characters = fc.constantFrom(
    ...'\u0000\u0001\t\n\u001f !"#[\\]abz~\u007f\u0080é߿ࠀ',
    "\ud7ff",
    "\ud800",
    "\udbff",
    "\udc00",
    "\ue000",
    "\uefff",
    "\uf000",
    "\uffff",
    "\u{10000}",
    "\u{1f600}",
    "\u{10ffff}",
  );
  const texts = fc.array(characters, { maxLength: 4 }).map((each) => each.join(""));
  fc.assert(
    fc.property(texts, texts, texts, (beginning, rest, otherRest) => {
      const [text, other] = [beginning + rest, beginning + otherRest];
      const bytes = new TextEncoder().encode(`[${encodeJsonString(text)}]`);
      const order = new TextBound(other).compare(bytes, 2, bytes.length - 2);
      assert.equal(Math.sign(order), text < other ? -1 : text > other ? 1 : 0);
    }),
    { numRuns: 1000 },
  );
});
