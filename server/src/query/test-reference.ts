import { parseDateTime } from "@rowhouse/protocol/date-time";
import { compareLiterals } from "@rowhouse/protocol/filter-literal";
import type { ComparisonOperator, FilterNode, Literal } from "@rowhouse/protocol/filter-tree";
import type { TextBound } from "@rowhouse/protocol/json-string";
import type { EntityView } from "./entity-view.ts";

/**
 * The meaning of filters, in code plain enough to be obviously right. The predicates and plans that
 * serve requests are compared with it on random filters and entities.
 */
export interface PlainEntity {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly timestampTicks: bigint;
  readonly properties: Readonly<Record<string, Literal>>;
}

export function evaluate(filter: FilterNode, entity: PlainEntity): boolean {
  switch (filter.kind) {
    case "constant":
      return filter.value;
    case "not":
      return !evaluate(filter.clause, entity);
    case "and":
      return filter.clauses.every((clause) => evaluate(clause, entity));
    case "or":
      return filter.clauses.some((clause) => evaluate(clause, entity));
    case "property": {
      const value = propertyOf(entity, filter.property);
      return value?.type === "Edm.Boolean" && value.value;
    }
    case "comparison":
      return holds(propertyOf(entity, filter.property), filter.operator, filter.literal);
  }
}

function propertyOf(entity: PlainEntity, property: string): Literal | undefined {
  if (property === "PartitionKey") return { type: "Edm.String", value: entity.partitionKey };
  if (property === "RowKey") return { type: "Edm.String", value: entity.rowKey };
  if (property === "Timestamp") return { type: "Edm.DateTime", value: entity.timestampTicks };
  return Object.hasOwn(entity.properties, property) ? entity.properties[property] : undefined;
}

function holds(
  value: Literal | undefined,
  operator: ComparisonOperator,
  literal: Literal,
): boolean {
  if (value === undefined) return false;
  if (COMPARABLE_WITH[literal.type].includes(value.type)) {
    return compareLiterals(value, operator, literal) === true;
  }
  return operator === "ne" || operator === "lt" || operator === "le";
}

/** For each type of literal, the property types that it is compared with by value. */
const COMPARABLE_WITH: Record<Literal["type"], readonly Literal["type"][]> = {
  "Edm.String": ["Edm.String"],
  "Edm.Int32": ["Edm.Int32", "Edm.Int64", "Edm.Double"],
  "Edm.Int64": ["Edm.Int64", "Edm.Double"],
  "Edm.Double": ["Edm.Double"],
  "Edm.Boolean": ["Edm.Boolean"],
  "Edm.DateTime": ["Edm.DateTime"],
  "Edm.Guid": ["Edm.Guid"],
  "Edm.Binary": ["Edm.Binary"],
};

/** An entity view over plain values. Each method throws for types it is not meant for. */
export class PlainView implements EntityView {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly timestampTicks: bigint;
  readonly #names: readonly string[];
  readonly #values: readonly Literal[];

  constructor(entity: PlainEntity) {
    this.partitionKey = entity.partitionKey;
    this.rowKey = entity.rowKey;
    this.timestampTicks = entity.timestampTicks;
    this.#names = Object.keys(entity.properties);
    this.#values = Object.values(entity.properties);
  }

  find(name: Uint8Array): number {
    return this.#names.indexOf(new TextDecoder().decode(name));
  }

  typeOf(index: number): Literal["type"] {
    return this.#values[index]!.type;
  }

  text(index: number): string {
    const literal = this.#values[index]!;
    if (literal.type === "Edm.String" || literal.type === "Edm.Guid") return literal.value;
    throw new TypeError(`${literal.type} has no text form.`);
  }

  jsonEquals(index: number, json: Uint8Array): boolean {
    return new TextDecoder().decode(json) === JSON.stringify(this.text(index));
  }

  compareText(index: number, { text }: TextBound): number {
    return compare(this.text(index), text);
  }

  comparePartitionKey({ text }: TextBound): number {
    return compare(this.partitionKey, text);
  }

  compareRowKey({ text }: TextBound): number {
    return compare(this.rowKey, text);
  }

  compareDateTime(index: number, printed: Uint8Array): number {
    const literal = this.#values[index]!;
    if (literal.type !== "Edm.DateTime") throw new TypeError(`${literal.type} is not a date.`);
    return compare(literal.value, parseDateTime(new TextDecoder().decode(printed))!);
  }

  number(index: number): number {
    const literal = this.#values[index]!;
    if (literal.type === "Edm.Int32" || literal.type === "Edm.Double") return literal.value;
    if (literal.type === "Edm.Boolean") return literal.value ? 1 : 0;
    throw new TypeError(`${literal.type} is not a number.`);
  }

  bigint(index: number): bigint {
    const literal = this.#values[index]!;
    if (literal.type === "Edm.Int64") return literal.value;
    throw new TypeError(`${literal.type} is not a bigint.`);
  }

  bytes(index: number): Uint8Array {
    const literal = this.#values[index]!;
    if (literal.type === "Edm.Binary") return literal.value;
    throw new TypeError(`${literal.type} has no bytes.`);
  }
}

function compare<Value extends string | bigint>(a: Value, b: Value): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
