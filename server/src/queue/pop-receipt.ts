import { readTime, TIME_BYTES, writeTime } from "./message-keys.ts";
import { type Message, NONCE_BYTES } from "./message-record.ts";

/**
 * The content of a pop receipt. To clients it is opaque; its format is ours:
 *
 *   version(1) generation(1) expiry(6) nonce(8), in base64url without padding
 *
 * The expiry locates the message's record. The nonce is drawn for each receipt. The generation only helps
 * when debugging, to tell which of two receipts is older.
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

/** Undefined for text that this service cannot have issued. */
export function parsePopReceipt(text: string): PopReceipt | undefined {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.length !== BYTES || bytes[0] !== VERSION) return undefined;
  // The decoder ignores characters that are not base64.
  if (bytes.toString("base64url") !== text) return undefined;
  return {
    generation: bytes[GENERATION]!,
    expiresAt: readTime(bytes, EXPIRY),
    nonce: bytes.toString("latin1", NONCE),
  };
}

/** Whether the receipt is the latest one issued for this message. */
export function isPresentReceipt(receipt: PopReceipt, message: Message): boolean {
  // Compares everything, so that the time taken does not reveal how much of a guess was right.
  let difference = receipt.generation ^ message.generation;
  for (let i = 0; i < NONCE_BYTES; i++) {
    difference |= receipt.nonce.charCodeAt(i) ^ message.nonce.charCodeAt(i);
  }
  return difference === 0;
}
