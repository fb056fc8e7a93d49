/**
 * JSON strings as the services write them and as stored entities hold them: `"`, `\` and control
 * characters are escaped, everything else is literal UTF-8. A text has one form, so equal texts are
 * equal bytes. (A lone surrogate, which UTF-8 cannot encode, keeps its `\ud800` escape.)
 */
export function encodeJsonString(text: string): string {
  return JSON.stringify(text);
}

/** The text of the JSON string `bytes[start, end)`, quotes included, which must be well-formed. */
export function decodeJsonString(bytes: Uint8Array, start: number, end: number): string {
  return decodeJsonInside(bytes, start + 1, end - 1);
}

/** The same without the quotes. */
export function decodeJsonInside(bytes: Uint8Array, start: number, end: number): string {
  const inside = decodeUtf8(bytes, start, end);
  return inside.includes("\\") ? JSON.parse(`"${inside}"`) : inside;
}

/**
 * A text with which stored strings are compared. A filter that asks for the texts from one to
 * another would otherwise decode the string of each entity, which takes 300 ns.
 */
export class TextBound {
  readonly text: string;
  /** As in JSON, without the quotes. */
  readonly #bytes: Uint8Array;
  readonly #isEscaped: boolean;

  constructor(text: string) {
    const inside = encodeJsonString(text).slice(1, -1);
    this.text = text;
    this.#bytes = new TextEncoder().encode(inside);
    this.#isEscaped = inside.includes("\\");
  }

  /**
   * The order of the text of a JSON string and this one by UTF-16 code units, as JavaScript orders
   * them: negative, 0 or positive. `bytes[start, end)` is the inside of the string, without quotes.
   */
  compare(bytes: Uint8Array, start: number, end: number): number {
    const own = this.#bytes;
    const length = Math.min(end - start, own.length);
    for (let i = 0; i < length; i++) {
      const a = bytes[start + i]!;
      const b = own[i]!;
      if (a === b) continue;
      // Bytes are in the order of code points. That differs for a surrogate pair and U+E000 to U+FFFF.
      const isOrdered = a < LEAD_OF_E000 || b < LEAD_OF_E000;
      if (isOrdered && a !== BACKSLASH && !this.#isEscaped) return a - b;
      const text = decodeJsonInside(bytes, start, end);
      return text < this.text ? -1 : 1;
    }
    return end - start - own.length;
  }
}

const BACKSLASH = 0x5c;
/** The first byte of U+E000 in UTF-8. Characters beyond U+FFFF begin with larger ones. */
const LEAD_OF_E000 = 0xee;

/** The text of `bytes[start, end)`. */
export function decodeUtf8(bytes: Uint8Array, start: number, end: number): string {
  return decoder.decode(bytes.subarray(start, end));
}

// A text may begin with U+FEFF, which is not a byte order mark there.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
