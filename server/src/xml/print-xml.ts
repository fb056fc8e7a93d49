export const XML_DECLARATION = '<?xml version="1.0" encoding="utf-8"?>';

/**
 * A whole document: byte order mark, declaration, root element. Every recording has the mark; without it, a Python
 * client takes UTF-8 for something else.
 */
export function printDocument(root: string): string {
  return `\ufeff${XML_DECLARATION}${root}`;
}

/** The response with a document. */
export function xmlResponse(status: number, document: string) {
  return { status, headers: ["Content-Type", "application/xml"], body: document };
}

/** An element around content that is already XML; `<Name />` if there is none. */
export function printElement(name: string, content: string): string {
  return content === "" ? `<${name} />` : `<${name}>${content}</${name}>`;
}

/** An element around plain text. */
export function printLeaf(name: string, value: string | number | boolean): string {
  return printElement(name, typeof value === "string" ? escapeText(value) : String(value));
}

/**
 * Text escaped for an element. Uses named entities only: the JavaScript clients do not decode
 * numeric references, so a carriage return is sent raw. Characters that XML cannot represent become
 * U+FFFD; input documents that contain them are refused.
 */
export function escapeText(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return text.replace(MARKUP, nameEntity).replace(FORBIDDEN, "\ufffd");
}

/** Text escaped for a double-quoted attribute. */
export function escapeAttribute(text: string): string {
  return escapeText(text).replaceAll('"', "&quot;");
}

/** Whether the text has characters that XML cannot represent, escaped or not. */
export function hasForbidden(text: string): boolean {
  return text.search(FORBIDDEN) >= 0;
}

const MARKUP = /[&<>]/g;
/** Everything that is not a Char of XML 1.0, lone surrogates included. */
const FORBIDDEN = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const SPECIAL = new RegExp(`${MARKUP.source}|${FORBIDDEN.source}`, "u");

function nameEntity(character: string): string {
  return character === "&" ? "&amp;" : character === "<" ? "&lt;" : "&gt;";
}
