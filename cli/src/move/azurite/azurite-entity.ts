import { type DecodedEntity, decodeEntity } from "@rowhouse/protocol/entity-json";
import { type Row, rowOf, textOf } from "./row-members.ts";

export interface AzuriteEntity {
  readonly entity: DecodedEntity;
  /** Microseconds since 1970. The emulator's Timestamps may have one digit more, which is lost. */
  readonly timestampMicros: number;
}

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;

/**
 * An entity from its row in the emulator's file. Its properties are almost those of the wire: whole Doubles carry
 * their type beside them, and Guids are kept as the Base64 of their text.
 * @throws Error, or ServiceError for what breaks a rule of the service
 */
export function azuriteEntity(row: Row): AzuriteEntity {
  const properties = { ...rowOf(row, "properties") };
  for (const [name, type] of Object.entries(properties)) {
    if (type !== "Edm.Guid" || !name.endsWith(TYPE)) continue;
    const property = name.slice(0, -TYPE.length);
    const text = properties[property];
    if (typeof text === "string" && !GUID.test(text)) {
      properties[property] = Buffer.from(text, "base64").toString("utf8");
    }
  }
  const timestampMicros = microsOf(textOf(row, "lastModifiedTime"));
  properties.PartitionKey = textOf(row, "PartitionKey");
  properties.RowKey = textOf(row, "RowKey");
  return { entity: decodeEntity(Buffer.from(JSON.stringify(properties))), timestampMicros };
}

function microsOf(text: string): number {
  const [, seconds, fraction = ""] = INSTANT.exec(text) ?? [];
  if (seconds === undefined) throw new Error(`lastModifiedTime is "${text}", which is no time`);
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.slice(0, 6).padEnd(6, "0"));
}

const TYPE = "@odata.type";
