import type { Properties } from "../ports/edm.ts";
import type { Mutation } from "../ports/tables.ts";
import type { Clock, Random } from "./clock.ts";

/**
 * `rh_w` holds the token of the logical write that last touched a row, then up to three earlier ones. After a
 * lost answer it shows whether the write happened.
 */
export const WRITE_TOKENS = "rh_w";
const TOKENS_KEPT = 4;

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** Matches what `ulids` makes. */
export const IS_TOKEN = /^[\dA-HJKMNP-TV-Z]{26}$/;

/**
 * Makes ULIDs: 48 bits of time and 80 random bits, in 26 characters. Each sorts after the one before it: within
 * a millisecond, and after the clock was set back, it is the next number.
 */
export function ulids(clock: Clock, random: Random): () => string {
  let last = "";
  return () => {
    let token = "";
    for (let ms = clock.now(), i = 0; i < 10; i++, ms = Math.floor(ms / 32)) {
      token = CROCKFORD.charAt(ms % 32) + token;
    }
    if (token <= last.slice(0, 10)) token = next(last);
    else for (let i = 0; i < 16; i++) token += CROCKFORD.charAt(Math.floor(random() * 32));
    last = token;
    return token;
  };
}

/** The number after this one, in as many characters. */
function next(number: string): string {
  return number.replace(
    /[^Z]Z*$/,
    (end) => CROCKFORD.charAt(CROCKFORD.indexOf(end.charAt(0)) + 1) + "0".repeat(end.length - 1),
  );
}

/** The token with every digit inverted, in lower case: those of later tokens sort lower. */
export function newestFirst(token: string): string {
  const inverted = Array.from(token, (digit) => CROCKFORD.charAt(31 - CROCKFORD.indexOf(digit)));
  return inverted.join("").toLowerCase();
}

/**
 * The token itself, or its random part in the millisecond after `other` if that is later by another client's
 * clock.
 */
export function tokenBehind(other: string, token: string): string {
  return token > other ? token : next(other.slice(0, 10)) + token.slice(10);
}

/** The tokens of a row after the write `token`. */
export function tokensAfter(token: string, previous: string | undefined): string {
  const earlier = previous ? previous.split(",") : [];
  return [token, ...earlier.slice(0, TOKENS_KEPT - 1)].join(",");
}

export function tokensOf(properties: Properties | undefined): string | undefined {
  const value = properties?.[WRITE_TOKENS]?.value;
  return value === undefined ? undefined : String(value);
}

/** The token of the last write to a row. */
export function lastToken(properties: Properties | undefined): string | undefined {
  return tokensOf(properties)?.split(",")[0];
}

/**
 * Whether a row with these tokens contains the write of `mutation`. Unknown when so many writes followed that
 * the row remembers neither our token nor the one we built on.
 */
export function verdict(
  mutation: Mutation,
  stored: Properties | undefined,
): "ours" | "not ours" | "unknown" {
  const [token, before] = (
    tokensOf("properties" in mutation ? mutation.properties : undefined) ?? ""
  ).split(",");
  if (!token) return "unknown";
  const found = (tokensOf(stored) ?? "").split(",");
  if (found.includes(token)) return "ours";
  if (before) return found.includes(before) ? "not ours" : "unknown";
  // An insert builds on nothing: the history must reach back to the row's creation.
  return mutation.kind === "insert" && found.length < TOKENS_KEPT ? "not ours" : "unknown";
}
