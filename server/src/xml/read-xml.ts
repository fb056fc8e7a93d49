import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { XMLParser, XMLValidator } from "fast-xml-parser";
import { hasForbidden } from "./print-xml.ts";
import { invalidXml } from "./xml-refusal.ts";

/** One element of a document. Attributes, comments and processing instructions are not kept. */
export interface XmlElement {
  /** As written, with its prefix if it has one. */
  readonly name: string;
  readonly children: readonly XmlElement[];
  /** All text inside, that of descendants too, in document order. White space is kept, line ends are LF. */
  readonly text: string;
  /** Whether text other than white space stands beside child elements. */
  readonly mixed: boolean;
}

/**
 * Reads a document in UTF-8; byte order mark and declaration may be missing. The five named
 * entities, numeric references and CDATA are decoded; a document type is refused, and with it every
 * other entity. Takes time linear in the size of the body.
 * @throws ServiceError InvalidXmlDocument; RequestBodyTooLarge above `bytesMax`.
 */
export function readXml(body: Uint8Array, bytesMax: number = LIMITS.xmlBodyBytesMax): XmlElement {
  if (body.length > bytesMax) {
    throw new ServiceError("RequestBodyTooLarge", { details: [["MaxLimit", String(bytesMax)]] });
  }
  const text = decodeUtf8(body);
  if (hasForbidden(text)) throw invalidXml("A character that XML does not allow.");
  if (hasDocumentType(text)) throw invalidXml("A document type is not allowed.");
  // The parser alone forgives nearly everything; the validator sees to tags and ampersands, and
  // between them they overlook text after a root without content.
  const verdict = XMLValidator.validate(text);
  if (verdict !== true) {
    const { msg, line, col } = verdict.err;
    // An empty document has no column.
    throw invalidXml(msg.slice(0, REASON_LENGTH_MAX), { line, column: col ?? 1 });
  }
  if (!text.trimEnd().endsWith(">")) throw invalidXml("Text after the root element.");
  return rootOf(parse(text));
}

/** `preserveOrder`: a node is an object of one key, its name, and holds its content; `#text` holds a string. */
interface ParsedNode {
  readonly [name: string]: string | readonly ParsedNode[];
}

const PARSER = new XMLParser({
  preserveOrder: true,
  ignoreAttributes: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  parseTagValue: false,
  trimValues: false,
  // Entities are decoded below: the parser's own decoder leaves unknown ones standing.
  processEntities: false,
  cdataPropName: "#cdata",
  // It counts the elements around an element.
  maxNestedTags: LIMITS.xmlDepthMax - 1,
});

const UTF8 = new TextDecoder("utf-8", { fatal: true });
const REASON_LENGTH_MAX = 200;

/** @throws ServiceError InvalidXmlDocument */
export function decodeUtf8(body: Uint8Array): string {
  try {
    return UTF8.decode(body);
  } catch (cause) {
    throw new ServiceError("InvalidXmlDocument", { cause, details: [["Reason", "Not UTF-8."]] });
  }
}

/** Whether `<!` begins anything but a closed comment or CDATA section. */
function hasDocumentType(text: string): boolean {
  let at = text.indexOf("<!");
  while (at >= 0) {
    const isComment = text.startsWith("<!--", at);
    if (!isComment && !text.startsWith("<![CDATA[", at)) return true;
    const end = text.indexOf(isComment ? "-->" : "]]>", at + 4);
    if (end < 0) return true;
    at = text.indexOf("<!", end);
  }
  return false;
}

function parse(text: string): readonly ParsedNode[] {
  try {
    return PARSER.parse(text);
  } catch (cause) {
    // Nested too deep, or a name such as __proto__.
    throw new ServiceError("InvalidXmlDocument", { cause });
  }
}

function rootOf(nodes: readonly ParsedNode[]): XmlElement {
  const { children } = toElement("", nodes);
  const [root] = children;
  if (root === undefined || children.length > 1) {
    throw invalidXml("Exactly one root element is required.");
  }
  return root;
}

function toElement(name: string, content: readonly ParsedNode[]): XmlElement {
  const children: XmlElement[] = [];
  let text = "";
  let blank = true;
  for (const node of content) {
    for (const key in node) {
      const value = node[key]!;
      if (typeof value !== "string" && key !== "#cdata") {
        const child = toElement(key, value);
        children.push(child);
        text += child.text;
        continue;
      }
      const own = typeof value === "string" ? decodeReferences(value) : cdataText(value);
      text += own;
      blank &&= !NOT_BLANK.test(own);
    }
  }
  return { name, children, text, mixed: !blank && children.length > 0 };
}

/** White space of XML: a no-break space is none. */
const NOT_BLANK = /[^ \t\n\r]/;

function cdataText(content: readonly ParsedNode[]): string {
  let text = "";
  for (const { "#text": value } of content) if (typeof value === "string") text += value;
  return text;
}

const NAMED: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};
const REFERENCE = /&(?:#x([0-9a-fA-F]{1,8})|#([0-9]{1,8})|(lt|gt|amp|quot|apos));|&|\]\]>/g;

/** Named and numeric references, decoded. @throws ServiceError InvalidXmlDocument */
export function decodeReferences(text: string): string {
  if (!text.includes("&") && !text.includes("]]>")) return text;
  return text.replace(REFERENCE, (match, hex?: string, decimal?: string, named?: string) => {
    if (named !== undefined) return NAMED[named]!;
    const digits = hex ?? decimal;
    if (digits === undefined) throw invalidXml(`${match} stands where text is expected.`);
    const code = Number.parseInt(digits, hex === undefined ? 10 : 16);
    const character = code <= 0x10ffff ? String.fromCodePoint(code) : "";
    if (character === "" || hasForbidden(character)) {
      throw invalidXml(`${match} is no character that XML allows.`);
    }
    return character;
  });
}
