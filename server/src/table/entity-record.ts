import { parseDateTime, printMicros, ticksOfMicros } from "@rowhouse/protocol/date-time";
import type { EdmType } from "@rowhouse/protocol/edm";
import { typeOfForm } from "@rowhouse/protocol/edm";
import type { DecodedEntity } from "@rowhouse/protocol/entity-json";
import { isEntityTooLarge } from "@rowhouse/protocol/entity-size";
import { ServiceError } from "@rowhouse/protocol/errors";
import { etagOf } from "@rowhouse/protocol/etag";
import { type JsonProperty, valueOffset } from "@rowhouse/protocol/json-property";
import type { EntityView } from "../query/entity-view.ts";

// INTERIM
interface Head {
  pk: string;
  rk: string;
  properties: JsonProperty[];
}
function make(
  pk: string,
  rk: string,
  properties: readonly JsonProperty[],
  json: Uint8Array,
  micros: number,
): Uint8Array {
  const head = Buffer.from(JSON.stringify({ pk, rk, properties }));
  const out = Buffer.alloc(12 + head.length + json.length);
  out.writeDoubleLE(micros, 0);
  out.writeUInt32LE(head.length, 8);
  out.set(head, 12);
  out.set(json, 12 + head.length);
  return out;
}
export function parts(record: Uint8Array): Head & { json: Buffer; micros: number } {
  const b = Buffer.from(record.buffer, record.byteOffset, record.length);
  const n = b.readUInt32LE(8);
  return {
    ...JSON.parse(b.toString("utf8", 12, 12 + n)),
    json: b.subarray(12 + n),
    micros: b.readDoubleLE(0),
  };
}
export function encodeRecord(
  pk: string,
  rk: string,
  entity: DecodedEntity,
  micros: number,
): Uint8Array {
  return make(pk, rk, entity.properties, entity.json, micros);
}
export function restampRecord(record: Uint8Array, micros: number): Uint8Array {
  const p = parts(record);
  return make(p.pk, p.rk, p.properties, p.json, micros);
}
export function mergeRecord(
  current: Uint8Array,
  change: DecodedEntity,
  micros: number,
): Uint8Array {
  const p = parts(current);
  const names = new Map<string, [JsonProperty, Uint8Array]>();
  const add = (properties: readonly JsonProperty[], json: Uint8Array) => {
    let start = 0;
    for (const property of properties) {
      const bytes = Buffer.from(json.subarray(start, property.end));
      const v = valueOffset(property.form, property.nameBytes);
      names.set(bytes.toString("utf8", v - 2 - property.nameBytes, v - 2), [property, bytes]);
      start = property.end;
    }
  };
  add(p.properties, p.json);
  add(change.properties, change.json);
  if (names.size > 252) throw new ServiceError("TooManyProperties");
  let end = 0;
  const properties = [...names.values()].map(([property, bytes]) => ({
    ...property,
    end: (end += bytes.length),
  }));
  const json = Buffer.concat([...names.values()].map(([, bytes]) => bytes));
  if (isEntityTooLarge({ partitionKey: p.pk, rowKey: p.rk, json, properties }))
    throw new ServiceError("EntityTooLarge");
  return make(p.pk, p.rk, properties, json, micros);
}
export function recordTimestamp(record: Uint8Array): number {
  return parts(record).micros;
}
export function recordEtag(record: Uint8Array): string {
  return etagOf(printMicros(recordTimestamp(record)));
}
export function recordKeys(record: Uint8Array): { partitionKey: string; rowKey: string } {
  const p = parts(record);
  return { partitionKey: p.pk, rowKey: p.rk };
}
export class RecordView implements EntityView {
  record: Uint8Array = new Uint8Array(0);
  #p!: ReturnType<typeof parts>;
  reset(record: Uint8Array): void {
    this.record = record;
    this.#p = parts(record);
  }
  get partitionKey(): string {
    return this.#p.pk;
  }
  get rowKey(): string {
    return this.#p.rk;
  }
  get timestampTicks(): bigint {
    return ticksOfMicros(this.#p.micros);
  }
  #start(i: number): number {
    return i === 0 ? 0 : this.#p.properties[i - 1]!.end;
  }
  #json(i: number): string {
    const { form, nameBytes, end } = this.#p.properties[i]!;
    return this.#p.json.toString("utf8", this.#start(i) + valueOffset(form, nameBytes), end);
  }
  find(name: Uint8Array): number {
    return this.#p.properties.findIndex(({ form, nameBytes }, i) => {
      const at = this.#start(i) + valueOffset(form, nameBytes) - 2 - nameBytes;
      return this.#p.json.subarray(at, at + nameBytes).equals(name);
    });
  }
  typeOf(i: number): EdmType {
    return typeOfForm(this.#p.properties[i]!.form);
  }
  text(i: number): string {
    return JSON.parse(this.#json(i));
  }
  jsonEquals(i: number, json: Uint8Array): boolean {
    return Buffer.from(json).toString() === this.#json(i);
  }
  number(i: number): number {
    const j = this.#json(i);
    return j === "true" ? 1 : j === "false" ? 0 : Number(j.replaceAll('"', ""));
  }
  bigint(i: number): bigint {
    return this.typeOf(i) === "Edm.DateTime" ? parseDateTime(this.text(i))! : BigInt(this.text(i));
  }
  bytes(i: number): Uint8Array {
    return Buffer.from(this.text(i), "base64");
  }
}
