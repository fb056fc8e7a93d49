import { STRING } from "./edm.ts";
import { checkBodyKey, type EntityKeys } from "./entity-key.ts";
import { hasValueTooLarge, isEntityTooLarge } from "./entity-size.ts";
import { ServiceError } from "./errors.ts";
import {
  ESCAPED_TEXT,
  JsonMembers,
  NULL,
  PARTITION_KEY,
  PROPERTY,
  ROW_KEY,
  TEXT,
} from "./json-members.ts";
import type { JsonProperty } from "./json-property.ts";
import { PropertyWriter } from "./json-property-writer.ts";
import { malformedJson } from "./json-scanner.ts";
import { decodeJsonString, decodeUtf8 } from "./json-string.ts";
import { LIMITS } from "./limits.ts";
import { isPropertyName } from "./property-name.ts";

/** An entity decoded from a body: its custom properties, in the order of the body, as they will be stored. */
export interface DecodedEntity extends EntityKeys {
  /** The properties one after the other; see `JsonProperty`. */
  readonly json: Uint8Array;
  readonly properties: readonly JsonProperty[];
}

/**
 * Decodes an entity from a JSON body. A property's type is given by its `@odata.type` annotation,
 * before or after it, or else by its JSON form: `1` is an Edm.Int32, `1.0` an Edm.Double.
 * Properties that are `null`, `Timestamp` and control information (`odata.*`) are dropped.
 *
 * With an `address`, as in updates, the keys are those of the address, whatever the body says of them.
 * Source: "Payload format for Table service operations", "Understanding the Table service data
 * model".
 * @throws ServiceError InvalidInput, DuplicatePropertiesSpecified, PropertiesNeedValue,
 * OutOfRangeInput, PropertyNameTooLong, PropertyNameInvalid, TooManyProperties, EntityTooLarge,
 * PropertyValueTooLarge. The last two are checked last and in this order.
 */
export function decodeEntity(body: Uint8Array, address?: EntityKeys): DecodedEntity {
  members.read(body);
  const { partitionKey, rowKey } = address ?? {
    partitionKey: readKey(PARTITION_KEY),
    rowKey: readKey(ROW_KEY),
  };
  const properties: JsonProperty[] = [];
  writer.begin();
  for (let member = 0; member < members.count; member++) {
    // An ABSENT member has only an annotation.
    if (members.roles[member] !== PROPERTY || members.kinds[member]! <= NULL) continue;
    if (properties.length === LIMITS.customPropertiesMax)
      throw new ServiceError("TooManyProperties");
    checkName(member);
    properties.push(writer.add(member));
  }
  const entity = { partitionKey, rowKey, json: writer.finish(), properties };
  if (isEntityTooLarge(entity)) throw new ServiceError("EntityTooLarge");
  if (hasValueTooLarge(entity)) throw new ServiceError("PropertyValueTooLarge");
  return entity;
}

/**
 * The name in the body of Create Table, `{"TableName":"t1"}`; it may be illegal.
 * @throws ServiceError InvalidInput if there is none.
 */
export function decodeTableName(body: Uint8Array): string {
  members.read(body);
  for (let member = 0; member < members.count; member++) {
    const name = decodeUtf8(members.bytes, members.nameStarts[member]!, members.nameEnds[member]!);
    if (name !== "TableName") continue;
    const tableName = textOf(member);
    if (tableName) return tableName;
  }
  throw new ServiceError("InvalidInput");
}

/** Scratch, reused by each call: calls are synchronous and never overlap. */
const members = new JsonMembers();
const writer = new PropertyWriter(members);

/** A key in the body. */
function readKey(role: number): string {
  const name = role === PARTITION_KEY ? "PartitionKey" : "RowKey";
  const member = members.byRole[role]!;
  if (member < 0 || members.kinds[member]! <= NULL) throw new ServiceError("PropertiesNeedValue");
  const key = textOf(member);
  if (key === undefined || (members.annotatedForm(member) ?? STRING) !== STRING)
    throw malformedJson();
  checkBodyKey(name, key);
  return key;
}

function checkName(member: number): void {
  const { bytes, nameStarts, nameEnds, plainNames } = members;
  const start = nameStarts[member]!;
  const end = nameEnds[member]!;
  if (plainNames[member] === 1 && end - start <= LIMITS.propertyNameLengthMax) return;
  const name = decodeUtf8(bytes, start, end);
  if (name.length > LIMITS.propertyNameLengthMax) throw new ServiceError("PropertyNameTooLong");
  if (!isPropertyName(name)) throw new ServiceError("PropertyNameInvalid");
}

/** The text of a member; undefined if its value is not a string. */
function textOf(member: number): string | undefined {
  const kind = members.kinds[member];
  if (kind !== TEXT && kind !== ESCAPED_TEXT) return undefined;
  return decodeJsonString(
    members.bytes,
    members.valueStarts[member]! - 1,
    members.valueEnds[member]! + 1,
  );
}
