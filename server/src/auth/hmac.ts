import { createHmac, timingSafeEqual } from "node:crypto";
import type { Account } from "./accounts.ts";

/** Whether `signature` is the HMAC-SHA256 of `text` under one of the account's keys. */
export function isSignedBy(account: Account, text: string, signature: Uint8Array): boolean {
  return account.keys.some((key) => timingSafeEqual(hmacSha256(key, text), signature));
}

export function hmacSha256(key: Uint8Array, text: string): Uint8Array {
  return createHmac("sha256", key).update(text).digest();
}

/** 32 bytes in base64, spelled the one way encoders spell them. */
const SIGNATURE = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/** The 32 bytes of a signature, or undefined for any other text. */
export function decodeSignature(base64: string): Uint8Array | undefined {
  return SIGNATURE.test(base64) ? Buffer.from(base64, "base64") : undefined;
}
