import { readTime, TIME_BYTES, writeTime } from "./message-keys.ts";
import { type Message, NONCE_BYTES } from "./message-record.ts";

/**
 * What a pop receipt says. Clients take it as it is; its form is ours:
 *
 *   version(1) generation(1) expiry(6) nonce(8), in the URL's own base64 without padding
 *
 * The expiry is where the message is kept, the nonce is drawn anew for each receipt, and the
 * generation tells whoever debugs which of two is the older.
 */
export interface PopReceipt {
  readonly generation: number;
  readonly expiresAt: number;
  /** Eight bytes, one character each. */
  readonly nonce: string;
}

const VERSION = 1;
const GENERATION = 1;
const EXPIRY = 2;
const NONCE = EXPIRY + TIME_BYTES;
const BYTES = NONCE + NONCE_BYTES;

export function printPopReceipt({ generation, expiresAt, nonce }: PopReceipt): string {
  const bytes = Buffer.allocUnsafe(BYTES);
  bytes[0] = VERSION;
  bytes[GENERATION] = generation;
  writeTime(bytes, expiresAt, EXPIRY);
  bytes.write(nonce, NONCE, "latin1");
  return bytes.toString("base64url");
}

/** Undefined for what this service cannot have issued. */
export function parsePopReceipt(text: string): PopReceipt | undefined {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.length !== BYTES || bytes[0] !== VERSION) return undefined;
  // The decoder passes over what is not base64.
  if (bytes.toString("base64url") !== text) return undefined;
  return {
    generation: bytes[GENERATION]!,
    expiresAt: readTime(bytes, EXPIRY),
    nonce: bytes.toString("latin1", NONCE),
  };
}

/** Whether it is the one issued last for this message. */
export function isPresentReceipt(receipt: PopReceipt, message: Message): boolean {
  // All of it is compared: how long that takes must not tell how much of a guess was right.
  let difference = receipt.generation ^ message.generation;
  for (let i = 0; i < NONCE_BYTES; i++) {
    difference |= receipt.nonce.charCodeAt(i) ^ message.nonce.charCodeAt(i);
  }
  return difference === 0;
}
