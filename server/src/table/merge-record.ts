import type { EdmForm } from "@rowhouse/protocol/edm";
import type { DecodedEntity } from "@rowhouse/protocol/entity-json";
import { isEntityTooLarge } from "@rowhouse/protocol/entity-size";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type JsonProperty, valueOffset } from "@rowhouse/protocol/json-property";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { LIMITS } from "@rowhouse/protocol/limits";
import { encodeRecord } from "./entity-record.ts";
import { RecordView } from "./record-view.ts";

/**
 * The record of an entity after a merge: a property of `change` replaces the one with its name,
 * whatever its type, or is appended; all others are unchanged.
 * @throws ServiceError TooManyProperties or EntityTooLarge: the limits apply to the result.
 */
export function mergeRecord(
  current: Uint8Array,
  change: DecodedEntity,
  timestampMicros: number,
): Uint8Array {
  view.reset(current);
  const { count } = view;
  const replacements = new Int16Array(count).fill(-1);
  const additions: number[] = [];
  for (let index = 0; index < change.properties.length; index++) {
    const replaced = view.find(nameOf(change, index));
    if (replaced < 0) additions.push(index);
    else replacements[replaced] = index;
  }
  if (count + additions.length > LIMITS.customPropertiesMax) {
    throw new ServiceError("TooManyProperties");
  }

  const merged = new MergedProperties(current.length - view.propertiesAt + change.json.length);
  for (let index = 0; index < count; index++) {
    const replacement = replacements[index]!;
    if (replacement < 0) merged.addStored(view, index);
    else merged.addChanged(change, replacement);
  }
  for (const index of additions) merged.addChanged(change, index);
  const { partitionKey, rowKey } = change;
  const entity = { partitionKey, rowKey, json: merged.json(), properties: merged.properties };
  if (isEntityTooLarge(entity)) throw new ServiceError("EntityTooLarge");
  return encodeRecord(entity, timestampMicros);
}

/** Scratch: merges are synchronous and never overlap. */
const view = new RecordView();

/** Properties copied one after the other from two sources. */
class MergedProperties {
  readonly properties: JsonProperty[] = [];
  readonly #bytes: Uint8Array;
  #end = 0;

  constructor(bytesMax: number) {
    this.#bytes = Buffer.allocUnsafe(bytesMax);
  }

  addStored(stored: RecordView, index: number): void {
    const { record } = stored;
    const start = stored.startOf(index);
    this.#add(stored.form(index), stored.nameBytes(index), record, start, stored.endOf(index));
  }

  addChanged(change: DecodedEntity, index: number): void {
    const { form, nameBytes, end } = change.properties[index]!;
    this.#add(form, nameBytes, change.json, startOf(change, index), end);
  }

  json(): Uint8Array {
    return this.#bytes.subarray(0, this.#end);
  }

  #add(form: EdmForm, nameBytes: number, bytes: Uint8Array, start: number, end: number): void {
    this.#end = copyBytes(this.#bytes, this.#end, bytes, start, end);
    this.properties.push({ form, nameBytes, end: this.#end });
  }
}

function startOf({ properties }: DecodedEntity, index: number): number {
  return index === 0 ? 0 : properties[index - 1]!.end;
}

function nameOf(entity: DecodedEntity, index: number): Uint8Array {
  const { form, nameBytes } = entity.properties[index]!;
  const end = startOf(entity, index) + valueOffset(form, nameBytes) - '":'.length;
  return entity.json.subarray(end - nameBytes, end);
}
