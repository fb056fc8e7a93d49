/**
 * The text of all elements of a name in an answer of the Queue or Blob service, still escaped. The services write neither
 * attributes with ">" nor comments, and a parser of documents is closed to this page by its own policy.
 */
export function elementsOf(xml: string, name: string): string[] {
  const found: string[] = [];
  for (let at = 0; ; ) {
    const open = new RegExp(`<${name}(?:\\s[^>]*)?(/?)>`, "g");
    open.lastIndex = at;
    const match = open.exec(xml);
    if (!match) return found;
    const begin = match.index + match[0].length;
    if (match[1] === "/") {
      found.push("");
      at = begin;
      continue;
    }
    const end = xml.indexOf(`</${name}>`, begin);
    if (end < 0) return found;
    found.push(xml.slice(begin, end));
    at = end;
  }
}

/** The text of the first element of a name, without escapes; "" where there is none. */
export function textOf(xml: string, name: string): string {
  return unescapeXml(elementsOf(xml, name)[0] ?? "");
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};

export function unescapeXml(text: string): string {
  return text.replace(/&(?:#x([\da-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

export function escapeXml(text: string): string {
  return text.replace(/[<>&\r]/g, (character) =>
    character === "\r"
      ? "&#xD;"
      : character === "<"
        ? "&lt;"
        : character === ">"
          ? "&gt;"
          : "&amp;",
  );
}

/** What a text holds: JSON, indented; else the UTF-8 text that it is the Base64 of; else itself. */
export function decoded(text: string): { readonly kind: string; readonly text: string } {
  const json = indented(text);
  if (json !== undefined) return { kind: "JSON", text: json };
  const plain = fromBase64(text);
  if (plain === undefined) return { kind: "text", text };
  const inner = indented(plain);
  return inner === undefined
    ? { kind: "text in Base64", text: plain }
    : { kind: "JSON in Base64", text: inner };
}

function indented(text: string): string | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // Only white space outside of strings is added: what JSON.parse reads would lose digits.
  let depth = 0;
  return text
    .replace(
      /("(?:[^"\\]|\\.)*")|\s+|([{[])|([}\]])|(,)|(:)/g,
      (_, string, open, close, comma, colon) => {
        if (string) return string;
        if (open) return `${open}\n${"  ".repeat(++depth)}`;
        if (close) return `\n${"  ".repeat(--depth)}${close}`;
        if (comma) return `,\n${"  ".repeat(depth)}`;
        return colon ? ": " : "";
      },
    )
    .replace(/([{[])\s+([}\]])/g, "$1$2");
}

function fromBase64(text: string): string | undefined {
  if (text.length < 4 || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text))
    return undefined;
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  try {
    const plain = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    // Words of four letters are valid Base64, too, of bytes that nobody writes.
    const isWritten = Array.from(plain).every(
      (character) => character >= " " || /\s/.test(character),
    );
    return isWritten ? plain : undefined;
  } catch {
    return undefined;
  }
}
