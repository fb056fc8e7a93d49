import { ServiceError } from "./errors.ts";
import { parseNumberLiteral, parseTypedLiteral } from "./filter-literal.ts";
import type { Literal } from "./filter-tree.ts";

/** `end` is the offset after the token: the position the service reports for a syntax error. */
export type Token =
  | { readonly kind: "name"; readonly text: string; readonly end: number }
  | { readonly kind: "literal"; readonly literal: Literal; readonly end: number }
  | { readonly kind: "(" | ")" | "," | "-" | "end"; readonly end: number };

/**
 * Splits a `$filter` into tokens, one at a time.
 *
 * The lexer does not distinguish names from operators: `eq` is an operator only where one may
 * stand, so a property may have any name. `NaN`, `INF` and `-INF` are Double literals, as in OData.
 */
export class FilterLexer {
  readonly #text: string;
  #position = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** @throws ServiceError InvalidInput at a character or literal that is not valid. */
  next(): Token {
    const text = this.#text;
    let start = this.#position;
    while (start < text.length && isSpace(text.charCodeAt(start))) start++;
    this.#position = start + 1;
    if (start >= text.length) return { kind: "end", end: text.length };
    const char = text[start]!;
    if (char === "(" || char === ")" || char === ",") return { kind: char, end: start + 1 };
    if (char === "'") return this.#string(start);
    if (char === "-") return this.#minus(start);
    return isDigit(char) ? this.#number(start) : this.#name(start);
  }

  syntaxError(position: number): ServiceError {
    const message = `Syntax error at position ${position} in '${this.#text}'.`;
    return new ServiceError("InvalidInput", { message });
  }

  #string(start: number): Token {
    const value = this.#quoted(start);
    return this.#literal({ type: "Edm.String", value });
  }

  #minus(start: number): Token {
    if (isDigit(this.#text[start + 1] ?? "")) return this.#number(start);
    const name = this.#match(NAME, start + 1);
    if (name !== "INF") return { kind: "-", end: start + 1 };
    this.#position = start + 4;
    return this.#literal({ type: "Edm.Double", value: Number.NEGATIVE_INFINITY });
  }

  #number(start: number): Token {
    const text = this.#match(NUMBER, start)!;
    this.#position = start + text.length;
    // Letters directly after a number, as in `5m` or `5lt`, are an error.
    const rest = this.#match(NAME, this.#position);
    const literal = rest === undefined ? parseNumberLiteral(text) : undefined;
    if (literal === undefined) throw this.syntaxError(this.#position + (rest?.length ?? 0));
    return this.#literal(literal);
  }

  #name(start: number): Token {
    const text = this.#match(NAME, start);
    if (text === undefined) throw this.syntaxError(start);
    this.#position = start + text.length;
    if (this.#text[this.#position] === "'" && PREFIX.test(text)) {
      const literal = parseTypedLiteral(text, this.#quoted(this.#position));
      if (literal === undefined) throw this.syntaxError(this.#position);
      return this.#literal(literal);
    }
    const value = CONSTANTS.get(text) ?? BOOLEANS.get(text.toLowerCase());
    if (value !== undefined) return this.#literal(value);
    return { kind: "name", text, end: this.#position };
  }

  #literal(literal: Literal): Token {
    return { kind: "literal", literal, end: this.#position };
  }

  /** The text in quotes at `open`, with doubled quotes made single; moves past the closing quote. */
  #quoted(open: number): string {
    const text = this.#text;
    let close = text.indexOf("'", open + 1);
    let doubled = false;
    while (close >= 0 && text[close + 1] === "'") {
      doubled = true;
      close = text.indexOf("'", close + 2);
    }
    if (close < 0) throw this.syntaxError(text.length);
    this.#position = close + 1;
    const value = text.slice(open + 1, close);
    return doubled ? value.replaceAll("''", "'") : value;
  }

  #match(pattern: RegExp, start: number): string | undefined {
    pattern.lastIndex = start;
    return pattern.test(this.#text) ? this.#text.slice(start, pattern.lastIndex) : undefined;
  }
}

/** The pattern of `isPropertyName`, matched at a position. */
const NAME = /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*/uy;
const NUMBER = /-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[lLdD]?/y;
const PREFIX = /^(?:datetime|guid|x|binary)$/i;

/** In any case: Python and .NET print `True` into filters (not confirmed by a recording). */
const BOOLEANS: ReadonlyMap<string, Literal> = new Map<string, Literal>([
  ["true", { type: "Edm.Boolean", value: true }],
  ["false", { type: "Edm.Boolean", value: false }],
]);
const CONSTANTS: ReadonlyMap<string, Literal> = new Map<string, Literal>([
  ["NaN", { type: "Edm.Double", value: Number.NaN }],
  ["INF", { type: "Edm.Double", value: Number.POSITIVE_INFINITY }],
]);

function isDigit(char: string): boolean {
  return char >= "0" && char <= "9";
}

function isSpace(code: number): boolean {
  if (code <= 0x20) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return code >= 0x80 && /\s/.test(String.fromCharCode(code));
}
