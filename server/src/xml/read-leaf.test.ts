import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { leafReader } from "./read-leaf.ts";
import { readXml } from "./read-xml.ts";

const readLeaf = leafReader("Root", "Leaf");

describe("The fast path for a single leaf", () => {
  it("reads the documents that clients send", () => {
    for (const declaration of [
      "",
      "\ufeff",
      '<?xml version="1.0" encoding="utf-8"?>',
      '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
      '<?xml version="1.0"?>\n',
    ]) {
      const document = `${declaration}<Root>\n <Leaf> a &amp; b </Leaf>\n</Root>\n`;
      assert.equal(readLeaf(Buffer.from(document)), " a & b ");
    }
  });

  it("leaves every other document to the parser", () => {
    for (const document of [
      "",
      "Leaf",
      "<Root><Leaf /></Root>",
      "<Root><Leaf>a<b/></Leaf></Root>",
      "<Root><Leaf>a</Leaf><Leaf>b</Leaf></Root>",
      "<Root><Leaf x='1'>a</Leaf></Root>",
      "<Root><Leaf>a</Leaf></Root><Root/>",
      "<Root><Leaf>a</Leaf></Root> b",
      "<Root><Leaf>a\r\nb</Leaf></Root>",
      "<Root><Leaf>a ]]> b</Leaf></Root>",
      "<Root><Leaf>&unknown;</Leaf></Root>",
      "<Root><Leaf>\u0001</Leaf></Root>",
      "<Root>\u00a0<Leaf>a</Leaf></Root>",
      "<!-- c --><Root><Leaf>a</Leaf></Root>",
    ]) {
      assert.equal(readLeaf(Buffer.from(document)), undefined, document);
    }
    assert.equal(readLeaf(Buffer.from("<Root><Leaf>\xff</Leaf></Root>", "latin1")), undefined);
  });

  it("agrees with the parser on every document it reads", () => {
    const piece = fc.constantFrom(
      "<Root>",
      "</Root>",
      "<Leaf>",
      "</Leaf>",
      "<Leaf/>",
      "text",
      " ",
      "\n",
      "\r",
      "&amp;",
      "&#65;",
      "&#x1;",
      "&",
      ">",
      "]]>",
      "<![CDATA[c]]>",
      "<!-- -->",
      "😀",
      "\u0002",
    );
    const inside = fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join(""));
    const plain = inside.map((text) => `<Root><Leaf>${text}</Leaf></Root>`);
    const any = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(fc.oneof(plain, any), (document) => {
        const body = Buffer.from(document);
        const text = readLeaf(body);
        if (text === undefined) return;
        const { name, children } = readXml(body);
        assert.equal(name, "Root");
        assert.deepEqual(
          children.map((child) => [child.name, child.text]),
          [["Leaf", text]],
        );
      }),
      { numRuns: 3000 },
    );
  });
});
