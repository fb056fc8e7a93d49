import { ServiceError } from "@rowhouse/protocol/errors";
import { FilterLexer, type Token } from "@rowhouse/protocol/filter-lexer";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";

export interface FilterProblem {
  readonly message: string;
  /** Where in the text; undefined for a problem of meaning. */
  readonly offset: number | undefined;
  /** A sentence: what may stand there. */
  readonly allowed: string;
}

export type ParsedFilter =
  | { readonly tree: FilterNode | undefined; readonly problem?: undefined }
  | { readonly tree?: undefined; readonly problem: FilterProblem };

/** With the server's own parser. Empty text is no filter. */
export function readFilter(text: string): ParsedFilter {
  if (text.trim() === "") return { tree: undefined };
  try {
    return { tree: parseFilter(text) };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const [, offset] = /^Syntax error at position (\d+) in /.exec(error.message) ?? [];
    if (offset !== undefined) {
      const at = Number(offset);
      const message = `Syntax error at position ${at}`;
      return { problem: { message, offset: at, allowed: `Allowed here: ${allowedAt(text, at)}.` } };
    }
    const message = error.message.split("\n")[0]!.replace(/\.$/, "");
    return { problem: { message, offset: undefined, allowed: MEANINGS[error.code] ?? "" } };
  }
}

const MEANINGS: Readonly<Record<string, string>> = {
  InvalidInput: "A comparison has a property on one side and a value on the other.",
  NotImplemented: "The Table service has no functions and no arithmetic in filters.",
};

export const OPERATORS = ["eq", "ne", "lt", "le", "gt", "ge"] as const;

/** What may follow a text: the kinds of words that completion offers. */
export interface Place {
  readonly wants: "operand" | "operator" | "literal" | "connective" | "nothing";
  /** The property that a literal is compared with. */
  readonly property?: string;
  /** Where the word under the cursor begins; it is replaced. */
  readonly from: number;
}

/** The place at the end of `text`, which is what stands before the cursor. */
export function placeAfter(text: string): Place {
  const tokens = tokensOf(text);
  const last = tokens.at(-1);
  const rest = text.slice(last?.end ?? 0).trimStart();
  if (rest !== "") {
    // An open literal, or something that is wrong before the cursor.
    const isOpen = /^(?:datetime|guid|x|binary)?'/i.test(rest);
    const from = isOpen ? text.length - rest.length : text.length;
    return isOpen ? placeOf(tokens, from) : { wants: "nothing", from };
  }
  if (last?.kind !== "name" || last.end !== text.length) return placeOf(tokens, text.length);
  return placeOf(tokens.slice(0, -1), text.length - last.text.length);
}

function placeOf(tokens: readonly Token[], from: number): Place {
  const [before, last] = [tokens.at(-2), tokens.at(-1)];
  if (last === undefined || last.kind === "(") return { wants: "operand", from };
  if (last.kind === "literal" || last.kind === ")") return { wants: "connective", from };
  if (last.kind !== "name") return { wants: "nothing", from };
  const isAfterOperand = before?.kind === "name" && !isWord(before.text);
  if (isOperator(last.text) && isAfterOperand)
    return { wants: "literal", property: before.text, from };
  if (isWord(last.text)) return { wants: "operand", from };
  return { wants: "operator", from };
}

function isOperator(text: string): boolean {
  return OPERATORS.some((operator) => operator === text);
}

function isWord(text: string): boolean {
  return text === "and" || text === "or" || text === "not";
}

const ALLOWED: Readonly<Record<Place["wants"], string>> = {
  operand: "a property, “not” or “(”",
  operator: "eq, ne, lt, le, gt or ge, or “and” / “or” after a Boolean property",
  literal: "a value: 'text', 12, 12L, 1.5, true, datetime'…', guid'…', X'…'",
  connective: "“and”, “or”, “)” or the end",
  nothing: "a property, an operator or a value",
};

/** The parser reports the end of what it could not use, or of the text if that ends too early. */
function allowedAt(text: string, offset: number): string {
  const tokens = tokensOf(text.slice(0, offset));
  const last = tokens.at(-1);
  const before = placeOf(tokens.slice(0, -1), 0);
  const isUsed = last === undefined || last.end < offset || fits(last, before);
  return ALLOWED[(isUsed ? placeOf(tokens, 0) : before).wants];
}

function fits(token: Token, { wants }: Place): boolean {
  const word = token.kind === "name" ? token.text : "";
  switch (wants) {
    case "operand":
      return token.kind !== ")" && token.kind !== ",";
    case "operator":
      return isOperator(word) || word === "and" || word === "or";
    case "literal":
      return token.kind === "literal" || token.kind === "name";
    case "connective":
      return word === "and" || word === "or" || token.kind === ")";
    case "nothing":
      return false;
  }
}

/** Up to the end, or to what is no token. */
function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const lexer = new FilterLexer(text);
  try {
    for (let token = lexer.next(); token.kind !== "end"; token = lexer.next()) tokens.push(token);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
  }
  return tokens;
}
