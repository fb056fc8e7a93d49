import { ID_BYTES } from "./message-keys.ts";

/** A message id as the wire has it: a GUID in lower case. */
export function printMessageId(id: Uint8Array): string {
  const hex = Buffer.from(id.buffer, id.byteOffset, id.byteLength).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Undefined for what is not a GUID. */
export function parseMessageId(text: string): Uint8Array | undefined {
  return GUID.test(text) ? Buffer.from(text.replaceAll("-", ""), "hex") : undefined;
}

/** A random GUID from sixteen random bytes, which it takes over. */
export function toMessageId(random: Uint8Array): Uint8Array {
  random[6] = (random[6]! & 0x0f) | 0x40;
  random[8] = (random[8]! & 0x3f) | 0x80;
  return random.subarray(0, ID_BYTES);
}
