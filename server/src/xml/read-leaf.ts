import { hasForbidden } from "./print-xml.ts";
import { decodeReferences, decodeUtf8 } from "./read-xml.ts";

/**
 * Reads the text of the document with which clients put messages: one element in another and
 * nothing else. Returns undefined for any other document, valid or not, which is left to `readXml`.
 * Without a tree, 1 KB of text takes 1.2 µs instead of 24.
 */
export function leafReader(root: string, leaf: string): (body: Uint8Array) => string | undefined {
  const opening = new RegExp(
    `^(?:<\\?xml version="1\\.0"(?: encoding="(?:utf|UTF)-8")?(?: standalone="(?:yes|no)")?\\?>)?[ \\t\\r\\n]*<${root}>[ \\t\\r\\n]*<${leaf}>`,
  );
  const closing = new RegExp(`^</${leaf}>[ \\t\\r\\n]*</${root}>[ \\t\\r\\n]*$`);
  return (body) => {
    try {
      const document = decodeUtf8(body);
      const start = opening.exec(document)?.[0].length ?? 0;
      const end = document.indexOf("<", start);
      // Any other beginning gives start 0, or no closing tags after the text.
      if (start === 0 || end < 0 || !closing.test(document.slice(end))) return undefined;
      const text = document.slice(start, end);
      return text.includes("\r") || hasForbidden(text) ? undefined : decodeReferences(text);
    } catch {
      return undefined;
    }
  };
}
