import { hasForbidden } from "./print-xml.ts";
import { decodeReferences, decodeUtf8 } from "./read-xml.ts";

/**
 * Reads the text of the document that clients put messages with: one element in another, nothing
 * beside them. The answer for any other document, right or wrong, is undefined: `readXml` knows.
 * Without a tree this takes a tenth of the time (1.2 µs instead of 24 for 1 KB of text).
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
      // A document that begins otherwise has a "<" at 0 or no closing tags behind it.
      if (start === 0 || end < 0 || !closing.test(document.slice(end))) return undefined;
      const text = document.slice(start, end);
      return text.includes("\r") || hasForbidden(text) ? undefined : decodeReferences(text);
    } catch {
      return undefined;
    }
  };
}
