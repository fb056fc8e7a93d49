import type { DocumentRules } from "./document-rules.ts";

/** Stands before the documents of the table service, though not before its errors. */
const BYTE_ORDER_MARK = "\ufeff";

export const XML_DECLARATION = '<?xml version="1.0" encoding="utf-8"?>';

/** A whole answer: declaration, root element, and the mark where the service sends one. */
export function printDocument(root: string, rules: Pick<DocumentRules, "byteOrderMark">): string {
  return (rules.byteOrderMark ? BYTE_ORDER_MARK : "") + XML_DECLARATION + root;
}

/** The answer that carries a document. */
export function xmlResponse(status: number, document: string) {
  return { status, headers: ["Content-Type", "application/xml"], body: document };
}

/** An element around content that is XML already; without content `<Name />`. */
export function printElement(name: string, content: string): string {
  return content === "" ? `<${name} />` : `<${name}>${content}</${name}>`;
}

/** An element around plain text. */
export function printLeaf(name: string, value: string | number | boolean): string {
  return printElement(name, typeof value === "string" ? escapeText(value) : String(value));
}

/**
 * Text as it stands in an element. Named entities only: the JavaScript clients do not decode numeric
 * references, so a carriage return travels raw. What XML cannot carry at all becomes U+FFFD;
 * documents that bring such characters are refused when they are read.
 */
export function escapeText(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return text.replace(MARKUP, nameEntity).replace(FORBIDDEN, "\ufffd");
}

/** Text as it stands between double quotes. */
export function escapeAttribute(text: string): string {
  return escapeText(text).replaceAll('"', "&quot;");
}

/** Whether XML cannot carry the text as it is, however it is escaped. */
export function hasForbidden(text: string): boolean {
  return text.search(FORBIDDEN) >= 0;
}

const MARKUP = /[&<>]/g;
/** All that is not a Char of XML 1.0, lone surrogates included. */
const FORBIDDEN = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const SPECIAL = new RegExp(`${MARKUP.source}|${FORBIDDEN.source}`, "u");

function nameEntity(character: string): string {
  return character === "&" ? "&amp;" : character === "<" ? "&lt;" : "&gt;";
}
