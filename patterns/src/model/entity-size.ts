import type { EdmValue, Properties } from "../ports/edm.ts";
import type { EntityKey } from "../ports/tables.ts";

export const ENTITY_BYTES_MAX = 1024 * 1024;

const FIXED_BYTES = { Boolean: 1, DateTime: 8, Double: 8, Guid: 16, Int32: 4, Int64: 8 };

/** The entity's size as the service counts it, by its published formula. Lengths are UTF-16 units. */
export function sizeOf({ partitionKey, rowKey }: EntityKey, properties: Properties): number {
  let bytes = 4 + 2 * (partitionKey.length + rowKey.length);
  for (const name of Object.keys(properties)) {
    bytes += 8 + 2 * name.length + payloadBytes(properties[name]!);
  }
  return bytes;
}

function payloadBytes({ type, value }: EdmValue): number {
  if (type === "String") return 4 + 2 * String(value).length;
  if (type !== "Binary") return FIXED_BYTES[type];
  const [base64 = ""] = String(value).split("=");
  return 4 + Math.floor((base64.length * 3) / 4);
}
