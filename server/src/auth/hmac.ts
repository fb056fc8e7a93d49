import { createHash, createHmac, hash, timingSafeEqual } from "node:crypto";
import type { Account } from "./accounts.ts";

/** Whether `signature`, 32 bytes, is the HMAC-SHA256 of `text` under one of the account's keys. */
export function isSignedBy(account: Account, text: string, signature: Uint8Array): boolean {
  let keys = preparedKeys.get(account);
  if (keys === undefined) {
    keys = account.keys.map((key) => new HmacKey(key));
    preparedKeys.set(account, keys);
  }
  // Which of the keys signed is no secret, so the second is only tried when the first was not it.
  for (const key of keys) if (timingSafeEqual(key.sign(text), signature)) return true;
  return false;
}

/** 32 bytes in base64, spelled the one way encoders spell them. */
const SIGNATURE = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/** The 32 bytes of a signature, or undefined for any other text. */
export function decodeSignature(base64: string): Uint8Array | undefined {
  return SIGNATURE.test(base64) ? Buffer.from(base64, "base64") : undefined;
}

/** An account object never changes; other keys come as another object. */
const preparedKeys = new WeakMap<Account, readonly HmacKey[]>();

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
/** Longer texts are signed the plain way; strings to sign have 100 to 400 code units. */
const TEXT_LENGTH_MAX = 2048;
const UTF8_BYTES_MAX = 3; // Of one UTF-16 code unit.

/**
 * HMAC-SHA256 with its key worked in ahead: two one-shot hashes over buffers that begin with the
 * padded key. 1.0 µs a signature of 110 bytes, against 2.2 µs for `createHmac`; digests travel as
 * binary text between them because a fresh Buffer for each costs 0.6 µs more (Node 20, RFC 2104).
 */
export class HmacKey {
  readonly #key: Uint8Array;
  /** The inner pad and room for the text. */
  readonly #inner = Buffer.alloc(BLOCK_BYTES + TEXT_LENGTH_MAX * UTF8_BYTES_MAX, 0x36);
  /** The outer pad and the inner digest. */
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES, 0x5c);
  readonly #digest = Buffer.alloc(DIGEST_BYTES);

  constructor(key: Uint8Array) {
    this.#key = key.length > BLOCK_BYTES ? createHash("sha256").update(key).digest() : key;
    for (const [index, byte] of this.#key.entries()) {
      this.#inner[index] = byte ^ 0x36;
      this.#outer[index] = byte ^ 0x5c;
    }
  }

  /** The HMAC of the text in UTF-8; the bytes are borrowed until the next call. */
  sign(text: string): Uint8Array {
    if (text.length > TEXT_LENGTH_MAX) {
      return createHmac("sha256", this.#key).update(text, "utf8").digest();
    }
    const end = BLOCK_BYTES + this.#inner.write(text, BLOCK_BYTES, "utf8");
    const inner = hash("sha256", this.#inner.subarray(0, end), "binary");
    this.#outer.write(inner, BLOCK_BYTES, "latin1");
    this.#digest.write(hash("sha256", this.#outer, "binary"), 0, "latin1");
    return this.#digest;
  }
}
