import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../auth/test-request.ts";
import { parseMessageText } from "./message-xml.ts";

describe("The text of a message", () => {
  it("is preserved, including white space", () => {
    for (const text of ["", " ", "\n\t ", "a  b", "日本語 😀", "a > b"]) {
      assert.equal(parse(`<MessageText>${text}</MessageText>`), text);
    }
    assert.equal(parse("<MessageText />"), "");
  });

  it("has its references decoded and its line ends converted to LF", () => {
    assert.equal(
      parse("<MessageText>&lt;&gt;&amp;&quot;&apos;&#65;&#x1F600;</MessageText>"),
      `<>&"'A😀`,
    );
    assert.equal(parse("<MessageText><![CDATA[<&>]]></MessageText>"), "<&>");
    assert.equal(parse("<MessageText>a\r\nb\rc</MessageText>"), "a\nb\nc");
  });

  it("loses unescaped markup but keeps the text inside it", () => {
    assert.equal(parse("<MessageText>a<b>c<d/></b>e</MessageText>"), "ace");
  });

  it("is read next to unknown elements", () => {
    assert.equal(parse("<A>1</A><MessageText>x</MessageText><B />"), "x");
  });

  it("has at most 65,536 bytes after decoding", () => {
    assert.equal(parse(`<MessageText>${"x".repeat(65_536)}</MessageText>`).length, 65_536);
    assert.equal(
      parse(`<MessageText><![CDATA[${"&".repeat(65_536)}]]></MessageText>`).length,
      65_536,
    );
    for (const text of ["x".repeat(65_537), "é".repeat(32_769)]) {
      const { code, status, details } = refusalOf(() =>
        parse(`<MessageText>${text}</MessageText>`),
      );
      assert.equal(code, "RequestBodyTooLarge");
      assert.equal(status, 413);
      assert.deepEqual(details, [["MaxLimit", "65536"]]);
    }
  });

  it("is rejected without its element, in another document, and with forbidden characters", () => {
    const refusal = (document: string) => refusalOf(() => parseMessageText(Buffer.from(document)));
    const { code, details } = refusal("<QueueMessage />");
    assert.equal(code, "MissingRequiredXmlNode");
    assert.deepEqual(details, [["XmlNodeName", "MessageText"]]);
    assert.equal(
      refusal("<QueueMessage><messagetext/></QueueMessage>").code,
      "MissingRequiredXmlNode",
    );
    for (const document of [
      "",
      "text",
      "<Other><MessageText>x</MessageText></Other>",
      "<QueueMessage><MessageText>x</QueueMessage>",
      "<QueueMessage><MessageText>\u0001</MessageText></QueueMessage>",
      "<QueueMessage><MessageText>&#1;</MessageText></QueueMessage>",
      "<QueueMessage><MessageText>&nbsp;</MessageText></QueueMessage>",
      "<!DOCTYPE x><QueueMessage><MessageText>x</MessageText></QueueMessage>",
    ]) {
      assert.equal(refusal(document).code, "InvalidXmlDocument", document);
    }
  });
});

function parse(content: string): string {
  const body = Buffer.from(`<QueueMessage>${content}</QueueMessage>`);
  return Buffer.from(parseMessageText(body)).toString("utf8");
}
