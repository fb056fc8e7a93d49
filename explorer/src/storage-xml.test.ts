import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { decoded, elementsOf, escapeXml, textOf, unescapeXml } from "./storage-xml.ts";

describe("Answers in XML", () => {
  it("are taken apart into elements, whatever is in them", () => {
    const xml = '<L><B a="1"><Name>x&lt;y</Name></B><B><Name/></B></L>';
    assert.deepEqual(elementsOf(xml, "B"), ["<Name>x&lt;y</Name>", "<Name/>"]);
    assert.equal(textOf(xml, "Name"), "x<y");
    assert.equal(textOf("<Name/>", "Name"), "");
    assert.deepEqual(elementsOf("<Blob>", "Blob"), []);
    assert.deepEqual(elementsOf("<Blobs></Blobs>", "Blob"), []);
  });

  it("keep every text that is escaped and read again", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        assert.equal(unescapeXml(escapeXml(text)), text);
      }),
    );
    assert.equal(unescapeXml("&#65;&#x1F600;&unknown;&#x110000;"), "A😀&unknown;&#x110000;");
  });
});

describe("The text of a message", () => {
  it("is shown as what it holds: JSON with all its digits, Base64 of text, or itself", () => {
    assert.deepEqual(decoded('{"id":12345678901234567890,"a":[],"s":"x, {y}"}'), {
      kind: "JSON",
      text: '{\n  "id": 12345678901234567890,\n  "a": [],\n  "s": "x, {y}"\n}',
    });
    assert.deepEqual(decoded(btoa("hello <b>")), { kind: "text in Base64", text: "hello <b>" });
    assert.deepEqual(decoded(btoa('{"a":1}')), { kind: "JSON in Base64", text: '{\n  "a": 1\n}' });
    for (const text of ["word", "", "{not json", "AAAA", "a b c d"])
      assert.deepEqual(decoded(text), { kind: "text", text });
  });
});
