import {
  INSTANT_SECONDS_MAX,
  PROPERTY_SECONDS_MIN,
  printDateTime,
  ticksOfInstant,
} from "@rowhouse/protocol/date-time";
import { printDouble } from "@rowhouse/protocol/double-text";
import type { EdmType } from "@rowhouse/protocol/edm";
import { type DecodedEntity, decodeEntity } from "@rowhouse/protocol/entity-json";
import fc from "fast-check";

/** A property for tests: as a client writes it, as the service sends it, and its value. */
export interface RandomProperty {
  readonly name: string;
  readonly type: EdmType;
  readonly value: string | number | bigint | Uint8Array;
  /** The value as JSON. */
  readonly json: string;
  /** Whether the service annotates the type at minimalmetadata. */
  readonly annotated: boolean;
}

export interface RandomEntity {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly properties: readonly RandomProperty[];
}

type RandomValue = Omit<RandomProperty, "name">;

const texts = fc
  .string({ unit: "binary" })
  .map((value) => plain("Edm.String", value, JSON.stringify(value)));
const int32s = fc
  .integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
  .map((value) => plain("Edm.Int32", value, String(value)));
const doubles = fc
  .oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer().map((i) => i / 100),
  )
  .map((value) => plain("Edm.Double", value + 0, printDouble(value)));
const specialDoubles = fc
  .constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY)
  .map((value) => annotated("Edm.Double", value, String(value)));
const booleans = fc.boolean().map((value) => plain("Edm.Boolean", Number(value), String(value)));
const int64s = fc
  .oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.bigInt({ min: -999n, max: 999n }),
  )
  .map((value) => annotated("Edm.Int64", value, String(value)));
const dateTimes = fc
  .bigInt({
    min: ticksOfInstant({ seconds: PROPERTY_SECONDS_MIN, ticks: 0 }),
    max: ticksOfInstant({ seconds: INSTANT_SECONDS_MAX, ticks: 9_999_999 }),
  })
  .map((value) => annotated("Edm.DateTime", value, printDateTime(value)));
const guids = fc.uuid().map((value) => annotated("Edm.Guid", value, value));
const binaries = fc
  .uint8Array({ maxLength: 40 })
  .map((value) => annotated("Edm.Binary", value, Buffer.from(value).toString("base64")));

const values: fc.Arbitrary<RandomValue> = fc.oneof(
  texts,
  int32s,
  doubles,
  specialDoubles,
  booleans,
  int64s,
  dateTimes,
  guids,
  binaries,
);
const names = fc.stringMatching(/^[A-Za-z_é名][A-Za-z0-9_é名]{0,9}$/);
const keys = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9 '"%_.é😀-]{0,20}$/u),
  fc.constantFrom("", '"', "O'Brien", "50%", "p"),
);

export const randomProperties: fc.Arbitrary<RandomProperty[]> = fc
  .uniqueArray(fc.tuple(names, values), { selector: ([name]) => name, maxLength: 12 })
  .map((pairs) => pairs.map(([name, value]) => ({ name, ...value })));

export const randomEntities: fc.Arbitrary<RandomEntity> = fc.record({
  partitionKey: keys,
  rowKey: keys,
  properties: randomProperties,
});

/** The entity that the service decodes from a body with these members. */
export function decoded(entity: RandomEntity): DecodedEntity {
  const members = [
    `"PartitionKey":${JSON.stringify(entity.partitionKey)}`,
    `"RowKey":${JSON.stringify(entity.rowKey)}`,
    ...entity.properties.map(annotatedMembers),
  ];
  return decodeEntity(new TextEncoder().encode(`{${members.join(",")}}`));
}

/** `"name@odata.type":"Edm.Int64","name":"39"` */
export function annotatedMembers({ name, type, json, annotated }: RandomProperty): string {
  return annotated ? `"${name}@odata.type":"${type}","${name}":${json}` : `"${name}":${json}`;
}

function plain(type: EdmType, value: RandomValue["value"], json: string): RandomValue {
  return { type, value, json, annotated: false };
}

function annotated(type: EdmType, value: RandomValue["value"], text: string): RandomValue {
  return { type, value, json: JSON.stringify(text), annotated: true };
}
