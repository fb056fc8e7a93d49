import { BINARY, BOOLEAN, GUID, INT32, STRING } from "./edm.ts";
import { binaryBytes } from "./edm-value.ts";
import type { EntityKeys } from "./entity-key.ts";
import { type JsonProperty, valueOffset } from "./json-property.ts";
import { decodeJsonString, decodeUtf8 } from "./json-string.ts";
import { LIMITS } from "./limits.ts";

/** The entity to measure: its keys, and its properties one after the other, see `JsonProperty`. */
export interface EntityText extends EntityKeys {
  readonly json: Uint8Array;
  readonly properties: readonly JsonProperty[];
}

/** Measures only when necessary: an entity whose text is below about half the limit cannot be too large. */
export function isEntityTooLarge(entity: EntityText): boolean {
  const { partitionKey, rowKey, json, properties } = entity;
  // A property counts at most two bytes per byte of its text plus two (a one-digit Edm.Int32 counts four).
  const texts = partitionKey.length + rowKey.length + json.length;
  if (4 + 2 * texts + 2 * properties.length <= LIMITS.entityBytesMax) return false;
  return entitySize(entity) > LIMITS.entityBytesMax;
}

/** Whether a string or binary property exceeds its limit. */
export function hasValueTooLarge({ json, properties }: EntityText): boolean {
  // A binary over its limit has even more text than a string may have characters.
  if (json.length <= LIMITS.stringLengthMax) return false;
  let start = 0;
  for (const { form, nameBytes, end } of properties) {
    const value = start + valueOffset(form, nameBytes);
    if (end - value > LIMITS.stringLengthMax) {
      if (form === BINARY && binaryBytes(json, value + 1, end - 1) > LIMITS.binaryBytesMax)
        return true;
      if (form === STRING && textLength(json, value, end) > LIMITS.stringLengthMax) return true;
    }
    start = end;
  }
  return false;
}

/**
 * The size of an entity in bytes, as the service counts it.
 * Source: "How to calculate the capacity of Azure table storage".
 */
export function entitySize({ partitionKey, rowKey, json, properties }: EntityText): number {
  let size = 4 + 2 * (partitionKey.length + rowKey.length);
  let start = 0;
  for (const { form, nameBytes, end } of properties) {
    const value = start + valueOffset(form, nameBytes);
    const nameEnd = value - '":'.length;
    size += 8 + 2 * decodeUtf8(json, nameEnd - nameBytes, nameEnd).length;
    switch (form) {
      case STRING:
        size += 2 * textLength(json, value, end) + 4;
        break;
      case BINARY:
        size += binaryBytes(json, value + 1, end - 1) + 4;
        break;
      case GUID:
        size += 16;
        break;
      case BOOLEAN:
        size += 1;
        break;
      case INT32:
        size += 4;
        break;
      default:
        size += 8;
    }
    start = end;
  }
  return size;
}

/** UTF-16 code units of a JSON string. */
function textLength(json: Uint8Array, start: number, end: number): number {
  return decodeJsonString(json, start, end).length;
}
