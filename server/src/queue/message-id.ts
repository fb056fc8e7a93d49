import { ID_BYTES } from "./message-keys.ts";

/* Message ids: GUIDs on the wire, sixteen bytes in keys, and in memory a string of one character per byte. */

/** The wire form, in lower case. */
export function printMessageId(id: string): string {
  const hex = Buffer.from(id, "latin1").toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Undefined for text that is not a GUID. */
export function parseMessageId(text: string): string | undefined {
  if (!GUID.test(text)) return undefined;
  return Buffer.from(text.replaceAll("-", ""), "hex").toString("latin1");
}

/** Makes a random GUID (version 4) from the first sixteen of these bytes, and sets its version bits in place. */
export function toMessageId(random: Buffer): string {
  random[6] = (random[6]! & 0x0f) | 0x40;
  random[8] = (random[8]! & 0x3f) | 0x80;
  return random.toString("latin1", 0, ID_BYTES);
}
