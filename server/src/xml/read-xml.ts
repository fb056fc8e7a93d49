import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { XMLParser, XMLValidator } from "fast-xml-parser";
import { hasForbidden } from "./print-xml.ts";
import { invalidXml } from "./xml-refusal.ts";

/** One element of a document. Attributes, comments and processing instructions are dropped. */
export interface XmlElement {
  /** As written, with its prefix if it has one. */
  readonly name: string;
  readonly children: readonly XmlElement[];
  /** All text inside, descendants included, in document order. White space is preserved; line ends are LF. */
  readonly text: string;
  /** Whether text other than white space occurs next to child elements. */
  readonly mixed: boolean;
}

/**
 * Parses a document in UTF-8; the byte order mark and the declaration are optional. The five named
 * entities, numeric references and CDATA are decoded; a document type, and with it every other
 * entity, is refused. Takes time linear in the size of the body.
 * @throws ServiceError InvalidXmlDocument; RequestBodyTooLarge above `bytesMax`.
 */
export function readXml(body: Uint8Array, bytesMax: number = LIMITS.xmlBodyBytesMax): XmlElement {
  if (body.length > bytesMax) {
    throw new ServiceError("RequestBodyTooLarge", { details: [["MaxLimit", String(bytesMax)]] });
  }
  const text = decodeUtf8(body);
  if (hasForbidden(text))
    throw invalidXml("The document contains a character that XML does not allow.");
  if (hasDocumentType(text)) throw invalidXml("A document type is not allowed.");
  // The parser alone accepts nearly anything. The validator checks tags and ampersands. Both
  // overlook text after an empty root element, so that is checked here.
  const verdict = XMLValidator.validate(text);
  if (verdict !== true) {
    const { line, col } = verdict.err;
    // An empty document has no column.
    throw invalidXml("The document is not well-formed.", { line, column: col ?? 1 });
  }
  if (!text.trimEnd().endsWith(">")) throw invalidXml("Text after the root element.");
  return rootOf(parse(text));
}

/**
 * With `preserveOrder` a node is an object with one key, its name, and its content as value;
 * `#text` is a string.
 */
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
  // Entities are decoded below, because the parser's own decoder ignores unknown ones.
  processEntities: false,
  cdataPropName: "#cdata",
  // The parser counts the ancestors of an element.
  maxNestedTags: LIMITS.xmlDepthMax - 1,
});

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** @throws ServiceError InvalidXmlDocument */
export function decodeUtf8(body: Uint8Array): string {
  try {
    return UTF8.decode(body);
  } catch (cause) {
    throw invalidXml("Not UTF-8.", undefined, cause);
  }
}

/** Whether any `<!` does not begin a closed comment or CDATA section. */
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
    // Nested too deeply, or a name such as __proto__.
    throw invalidXml("Nested too deeply, or a name that is not allowed.", undefined, cause);
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

/** XML's white space, which does not include the no-break space. */
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

/** Decodes named and numeric references. @throws ServiceError InvalidXmlDocument */
export function decodeReferences(text: string): string {
  if (!text.includes("&") && !text.includes("]]>")) return text;
  return text.replace(REFERENCE, (match, hex?: string, decimal?: string, named?: string) => {
    if (named !== undefined) return NAMED[named]!;
    const digits = hex ?? decimal;
    if (digits === undefined) throw invalidXml(`${match} is not allowed in text.`);
    const code = Number.parseInt(digits, hex === undefined ? 10 : 16);
    const character = code <= 0x10ffff ? String.fromCodePoint(code) : "";
    if (character === "" || hasForbidden(character)) {
      throw invalidXml(`${match} is not a character that XML allows.`);
    }
    return character;
  });
}
