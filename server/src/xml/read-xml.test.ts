import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import fc from "fast-check";
import { escapeAttribute, escapeText, printElement, printLeaf } from "./print-xml.ts";
import { readXml, type XmlElement } from "./read-xml.ts";

describe("An XML document", () => {
  it("is parsed to a tree of names, children and text", () => {
    assert.deepEqual(read("<a><b>1</b><c/><b> 2 </b></a>"), {
      name: "a",
      children: [
        { name: "b", children: [], text: "1", mixed: false },
        { name: "c", children: [], text: "", mixed: false },
        { name: "b", children: [], text: " 2 ", mixed: false },
      ],
      text: "1 2 ",
      mixed: false,
    });
  });

  it("may begin with a byte order mark, a declaration, comments and instructions", () => {
    const starts = [
      "\ufeff",
      '<?xml version="1.0" encoding="utf-8"?>\r\n',
      '\ufeff<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
      "<?xml version='1.0'?><!-- <b> --><?style x?>\n",
    ];
    for (const start of starts) assert.equal(read(`${start}<a>x</a>\n`).text, "x", start);
  });

  it("may have attributes, which are ignored, and prefixes, which are kept", () => {
    const root = read('<m:a xmlns:m="urn:x" b="1>2" c=\'/>\'>x</m:a>');
    assert.deepEqual([root.name, root.text], ["m:a", "x"]);
  });

  it("has its named and numeric references decoded exactly once", () => {
    assert.equal(textOf("&lt;&gt;&amp;&quot;&apos;&#65;&#x1F600;&#xd;"), "<>&\"'A😀\r");
    assert.equal(textOf("&amp;lt;&#38;lt;"), "&lt;&lt;");
  });

  it("has its CDATA sections taken verbatim", () => {
    assert.equal(textOf("1<![CDATA[<b>&amp;<!DOCTYPE]]>2<![CDATA[]]>"), "1<b>&amp;<!DOCTYPE2");
  });

  it("keeps its white space, with every line end as LF", () => {
    assert.equal(textOf(" \t a\r\nb\rc\n "), " \t a\nb\nc\n ");
    assert.equal(textOf("   "), "   ");
  });

  it("is reported as mixed where an element contains both text and elements", () => {
    assert.equal(read("<a>\r\n <b/>\t</a>").mixed, false);
    assert.equal(read("<a> x <b/></a>").mixed, true);
    assert.equal(read("<a>\u00a0<b/></a>").mixed, true);
    assert.equal(read("<a>1<b>2<c>3</c></b>4</a>").text, "1234");
  });

  const refused: Record<string, string> = {
    "nothing at all": "",
    "white space only": " \n",
    "text only": "hello",
    "no root": "<?xml version='1.0'?><!-- x -->",
    "two roots": "<a/><b/>",
    "text before the root": "x<a/>",
    "text after the root": "<a></a>x",
    "text after an empty root": "<a/>x",
    "an unclosed element": "<a><b></a>",
    "overlapping elements": "<a><b></a></b>",
    "a tag cut off": "<a><b",
    "a stray end tag": "</a>",
    "a repeated attribute": '<a b="1" b="2"/>',
    "an attribute without quotes": "<a b=1/>",
    "a document type": "<!DOCTYPE a><a/>",
    "an entity declaration": '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
    "a document type inside the root": "<a><!DOCTYPE b></a>",
    "an undeclared entity": "<a>&nbsp;</a>",
    "a lone ampersand": "<a>a & b</a>",
    "a reference to a forbidden character": "<a>&#1;</a>",
    "a reference to a surrogate": "<a>&#xD800;</a>",
    "a reference beyond Unicode": "<a>&#x110000;</a>",
    "a forbidden character": "<a>\u0001</a>",
    "the end of a CDATA section that never began": "<a>]]></a>",
    "an unclosed CDATA section": "<a><![CDATA[x</a>",
    "an unclosed comment": "<a><!-- x</a>",
    "a bad name": "<1/>",
    "a name that JavaScript reserves": "<a><__proto__/></a>",
  };
  for (const [name, text] of Object.entries(refused)) {
    it(`is refused with ${name}`, () => {
      assert.throws(() => read(text), { name: "ServiceError", code: "InvalidXmlDocument" });
    });
  }

  it("may nest elements as deep as the limit, and is refused when deeper", () => {
    const nested = (depth: number) => `${"<a>".repeat(depth)}x${"</a>".repeat(depth)}`;
    assert.equal(read(nested(LIMITS.xmlDepthMax)).text, "x");
    assert.throws(() => read(nested(LIMITS.xmlDepthMax + 1)), { code: "InvalidXmlDocument" });
  });

  it("is refused when it is not UTF-8", () => {
    const latin1 = Uint8Array.from("<a>\u00e9</a>", (unit) => unit.charCodeAt(0));
    assert.throws(() => readXml(latin1), { code: "InvalidXmlDocument" });
  });

  it("is refused above the size limit of the caller", () => {
    assert.equal(readXml(encode("<a>x</a>"), 8).text, "x");
    assert.throws(() => readXml(encode("<a>x</a>"), 7), {
      code: "RequestBodyTooLarge",
      details: [["MaxLimit", "7"]],
    });
  });

  it("is refused with the line and position of the error", () => {
    assert.throws(
      () => read("<a>\n<b></a>"),
      (error) => {
        assert.ok(error instanceof ServiceError);
        assert.deepEqual(error.details.slice(0, 2), [
          ["LineNumber", "2"],
          ["LinePosition", "4"],
        ]);
        return true;
      },
    );
  });

  it("is refused with a reason when it is empty", () => {
    assert.throws(() => read(""), {
      code: "InvalidXmlDocument",
      details: [
        ["LineNumber", "1"],
        ["LinePosition", "1"],
        ["Reason", "The document is not well-formed."],
      ],
    });
  });

  it("is parsed or refused with a ServiceError, whatever its text", () => {
    const piece = fc.oneof(
      fc.constantFrom(
        "<a>",
        "</a>",
        "<b/>",
        "<",
        ">",
        "/",
        "&",
        ";",
        "&lt;",
        "<!--",
        "-->",
        "<![CDATA[",
      ),
      fc.constantFrom(
        "]]>",
        "<?",
        "?>",
        "<!DOCTYPE a",
        "[",
        "]",
        "='",
        "'",
        '"',
        " x",
        "\r\n",
        "&#",
        "xml",
      ),
      fc.string({ unit: "binary", maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), fc.boolean(), (pieces, wrapped) => {
        const text = wrapped ? `<a>${pieces.join("")}</a>` : pieces.join("");
        try {
          read(text);
        } catch (error) {
          assert.ok(error instanceof ServiceError, String(error));
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe("Printed XML", () => {
  it("has an empty-element tag only where the content is empty", () => {
    assert.equal(printElement("Cors", ""), "<Cors />");
    assert.equal(printLeaf("Enabled", false), "<Enabled>false</Enabled>");
  });

  it("escapes special characters but not carriage returns", () => {
    assert.equal(escapeText("<&>\"'\r\n]]>"), "&lt;&amp;&gt;\"'\r\n]]&gt;");
    assert.equal(escapeAttribute('a"b<'), "a&quot;b&lt;");
  });

  it("replaces characters that XML does not allow", () => {
    assert.equal(escapeText("a\0b\ud800c\uffff"), "a\ufffdb\ufffdc\ufffd");
  });

  it("is parsed back to the same names and text", () => {
    const leaf = fc.record({ name: NAME, text: fc.string({ unit: "grapheme" }) });
    fc.assert(
      fc.property(NAME, fc.array(leaf, { maxLength: 4 }), (name, leaves) => {
        const printed = leaves.map(({ name: inner, text }) => printLeaf(inner, text)).join("");
        const { children } = read(printElement(name, printed));
        assert.deepEqual(
          children.map((child) => ({ name: child.name, text: child.text })),
          leaves.map(({ name: inner, text }) => ({ name: inner, text: normalized(text) })),
        );
      }),
    );
  });
});

const NAME = fc.stringMatching(/^[A-Z][A-Za-z0-9_]{0,8}$/);

function normalized(text: string): string {
  return text
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replaceAll(/\r\n?/g, "\n");
}

function textOf(content: string): string {
  return read(`<a>${content}</a>`).text;
}

function read(text: string): XmlElement {
  return readXml(encode(text));
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
