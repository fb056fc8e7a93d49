import type { Properties } from "../ports/edm.ts";
import type { Mutation } from "../ports/tables.ts";
import type { Clock, Random } from "./clock.ts";

/**
 * `rh_w` holds the token of the logical write that last touched a row, then up to three earlier ones.
 * It answers what a lost reply leaves open: did that write happen?
 */
export const WRITE_TOKENS = "rh_w";
const TOKENS_KEPT = 4;

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** What `ulid` makes. */
export const IS_TOKEN = /^[\dA-HJKMNP-TV-Z]{26}$/;

/** A ULID: 48 bits of time, 80 of chance, in 26 characters that sort by time. */
export function ulid(clock: Clock, random: Random): string {
  let time = "";
  for (let ms = clock.now(), i = 0; i < 10; i++, ms = Math.floor(ms / 32)) {
    time = CROCKFORD.charAt(ms % 32) + time;
  }
  let chance = "";
  for (let i = 0; i < 16; i++) chance += CROCKFORD.charAt(Math.floor(random() * 32));
  return time + chance;
}

/** The token, or one with its chance in the millisecond after `other` where that is later by somebody's clock. */
export function tokenBehind(other: string, token: string): string {
  if (token > other) return token;
  const next = (end: string) =>
    CROCKFORD.charAt(CROCKFORD.indexOf(end.charAt(0)) + 1) + "0".repeat(end.length - 1);
  return other.slice(0, 10).replace(/[^Z]Z*$/, next) + token.slice(10);
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

/** The token of the write that left a row as it is. */
export function lastToken(properties: Properties | undefined): string | undefined {
  return tokensOf(properties)?.split(",")[0];
}

/**
 * Whether the write that `mutation` carries is in a row with these tokens now. Unknown when so many
 * writes followed the one we built on that the row no longer remembers either.
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
  // An insert has nothing before it: the history must go back to the row's creation.
  return mutation.kind === "insert" && found.length < TOKENS_KEPT ? "not ours" : "unknown";
}
