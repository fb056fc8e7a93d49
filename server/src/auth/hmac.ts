import { createHash, createHmac, hash, timingSafeEqual } from "node:crypto";
import type { Account } from "../wire/account.ts";

/**
 * Whether `signature` is the base64 HMAC-SHA256 of `text` under one of the account's keys. Compares
 * the base64 texts, not the decoded bytes: the bytes have one canonical text, and decoding would
 * cost 0.5 µs more.
 */
export function isSignedBy(account: Account, text: string, signature: string): boolean {
  let keys = preparedKeys.get(account);
  if (keys === undefined) {
    keys = account.keys.map((key) => new HmacKey(key));
    preparedKeys.set(account, keys);
  }
  if (signature.length !== SIGNATURE_LENGTH) return false;
  // Written as UTF-8, in which only ASCII characters become ASCII bytes.
  if (sent.write(signature, "utf8") !== SIGNATURE_LENGTH) return false;
  // Which key signed is no secret, so the second key is tried only if the first does not match.
  for (const key of keys) {
    computed.write(key.sign(text), "latin1");
    if (timingSafeEqual(computed, sent)) return true;
  }
  return false;
}

/** 32 bytes in base64. */
const SIGNATURE_LENGTH = 44;
const sent = Buffer.alloc(SIGNATURE_LENGTH);
const computed = Buffer.alloc(SIGNATURE_LENGTH);

/** An account object never changes; changed keys make a new one. */
const preparedKeys = new WeakMap<Account, readonly HmacKey[]>();

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
/** Longer texts are signed with `createHmac`; strings to sign have 100 to 400 code units. */
const TEXT_LENGTH_MAX = 2048;
const UTF8_BYTES_MAX = 3; // Of one UTF-16 code unit.

/**
 * HMAC-SHA256 with a prepared key: two one-shot hashes over buffers that begin with the padded key.
 * A signature over 110 bytes takes 1.0 µs, against 2.2 µs for `createHmac`. The inner digest is
 * passed as a binary string because a new Buffer for each costs 0.6 µs more (Node 20, RFC 2104).
 */
export class HmacKey {
  readonly #key: Uint8Array;
  /** The inner pad, then room for the text. */
  readonly #inner = Buffer.alloc(BLOCK_BYTES + TEXT_LENGTH_MAX * UTF8_BYTES_MAX, 0x36);
  /** The outer pad, then the inner digest. */
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES, 0x5c);

  constructor(key: Uint8Array) {
    this.#key = key.length > BLOCK_BYTES ? createHash("sha256").update(key).digest() : key;
    for (const [index, byte] of this.#key.entries()) {
      this.#inner[index] = byte ^ 0x36;
      this.#outer[index] = byte ^ 0x5c;
    }
  }

  /** The base64 HMAC of the text in UTF-8. */
  sign(text: string): string {
    if (text.length > TEXT_LENGTH_MAX) {
      return createHmac("sha256", this.#key).update(text, "utf8").digest("base64");
    }
    const end = BLOCK_BYTES + this.#inner.write(text, BLOCK_BYTES, "utf8");
    const inner = hash("sha256", this.#inner.subarray(0, end), "binary");
    this.#outer.write(inner, BLOCK_BYTES, "latin1");
    return hash("sha256", this.#outer, "base64");
  }
}
