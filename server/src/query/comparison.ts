import { printDateTime } from "@rowhouse/protocol/date-time";
import type { ComparisonNode, ComparisonOperator, Literal } from "@rowhouse/protocol/filter-tree";
import { encodeJsonString, TextBound } from "@rowhouse/protocol/json-string";
import { encodeName } from "@rowhouse/protocol/property-name";
import type { EntityView } from "./entity-view.ts";

/** Whether an entity matches. Pure; holds no reference to the view. */
export type Predicate = (view: EntityView) => boolean;

/** A test and its relative cost, by which the clauses of a chain are ordered. */
export interface Compiled {
  readonly test: Predicate;
  readonly cost: number;
}

/** Only the order matters. */
export const COST = { constant: 0, number: 2, key: 3, stored: 3, bigint: 4, bytes: 5, text: 8 };

/**
 * Compiles one comparison. The test finds the property and checks its type before it reads the
 * value; strings and dates are compared as they are stored.
 */
export function compileComparison({ property, operator, literal }: ComparisonNode): Compiled {
  const accepted = ACCEPTED[operator];
  if (isSystemProperty(property)) return compileSystem(property, accepted, literal);
  const name = encodeName(property);
  const test = compileTest(name, accepted, literal);
  return { test, cost: costOf(literal) };
}

/**
 * Possible results of comparing a property with a literal. MISMATCH: the types cannot be compared;
 * UNORDERED: one is NaN. A missing property has none of these results and fails every comparison.
 */
const LESS = 1;
const EQUAL = 2;
const GREATER = 4;
const UNORDERED = 8;
export const MISMATCH = 16;

/** The comparison table: the results that each operator accepts. */
export const ACCEPTED: Record<ComparisonOperator, number> = {
  eq: EQUAL,
  ne: LESS | GREATER | UNORDERED | MISMATCH,
  lt: LESS | MISMATCH,
  le: LESS | EQUAL | MISMATCH,
  gt: GREATER,
  ge: GREATER | EQUAL,
};

function costOf({ type }: Literal): number {
  switch (type) {
    case "Edm.String":
    case "Edm.Guid":
    case "Edm.DateTime":
      return COST.stored;
    case "Edm.Int64":
      return COST.bigint;
    case "Edm.Binary":
      return COST.bytes;
    default:
      return COST.number;
  }
}

type SystemProperty = "PartitionKey" | "RowKey" | "Timestamp";

export function isSystemProperty(property: string): property is SystemProperty {
  return property === "PartitionKey" || property === "RowKey" || property === "Timestamp";
}

function compileSystem(property: SystemProperty, accepted: number, literal: Literal): Compiled {
  if (property === "Timestamp") {
    if (literal.type !== "Edm.DateTime") return mismatch(accepted);
    const ticks = literal.value;
    return {
      test: (view) => (accepted & orderBigints(view.timestampTicks, ticks)) !== 0,
      cost: COST.bigint,
    };
  }
  if (literal.type !== "Edm.String") return mismatch(accepted);
  const bound = new TextBound(literal.value);
  const test: Predicate =
    property === "PartitionKey"
      ? (view) => (accepted & orderOf(view.comparePartitionKey(bound))) !== 0
      : (view) => (accepted & orderOf(view.compareRowKey(bound))) !== 0;
  return { test, cost: COST.key };
}

function mismatch(accepted: number): Compiled {
  return { test: (accepted & MISMATCH) !== 0 ? always : never, cost: COST.constant };
}

/** One closure per type of literal, so that each closure calls the same methods for every entity. */
function compileTest(name: Uint8Array, accepted: number, literal: Literal): Predicate {
  switch (literal.type) {
    case "Edm.String":
    case "Edm.Guid":
      return accepted === ACCEPTED.eq || accepted === ACCEPTED.ne
        ? testStored(name, accepted, literal.type, literal.value)
        : testText(name, accepted, literal.type, literal.value);
    case "Edm.Int32":
      return testInt32(name, accepted, literal.value);
    case "Edm.Int64":
      return testInt64(name, accepted, literal.value);
    case "Edm.Double":
      return testNumber(name, accepted, "Edm.Double", literal.value);
    case "Edm.Boolean":
      return testNumber(name, accepted, "Edm.Boolean", literal.value ? 1 : 0);
    case "Edm.DateTime":
      return testDateTime(name, accepted, literal.value);
    case "Edm.Binary":
      return testBinary(name, accepted, literal.value);
  }
}

/** Equality of strings and GUIDs needs no decoding, because a value has one stored form. */
function testStored(
  name: Uint8Array,
  accepted: number,
  type: "Edm.String" | "Edm.Guid",
  value: string,
): Predicate {
  const json = new TextEncoder().encode(encodeJsonString(value));
  const whenEqual = (accepted & EQUAL) !== 0;
  const whenMismatch = (accepted & MISMATCH) !== 0;
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    if (view.typeOf(index) !== type) return whenMismatch;
    return view.jsonEquals(index, json) === whenEqual;
  };
}

function testText(
  name: Uint8Array,
  accepted: number,
  type: "Edm.String" | "Edm.Guid",
  value: string,
): Predicate {
  const bound = new TextBound(value);
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    const same = view.typeOf(index) === type;
    return (accepted & (same ? orderOf(view.compareText(index, bound)) : MISMATCH)) !== 0;
  };
}

/** An Int32 literal is compared with any numeric type. */
function testInt32(name: Uint8Array, accepted: number, value: number): Predicate {
  const bigint = BigInt(value);
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    const type = view.typeOf(index);
    if (type === "Edm.Int32" || type === "Edm.Double") {
      return (accepted & orderNumbers(view.number(index), value)) !== 0;
    }
    const order = type === "Edm.Int64" ? orderBigints(view.bigint(index), bigint) : MISMATCH;
    return (accepted & order) !== 0;
  };
}

/** An Int64 literal is compared with Int64 and, exactly, with Double, but not with Int32. */
function testInt64(name: Uint8Array, accepted: number, value: bigint): Predicate {
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    const type = view.typeOf(index);
    if (type === "Edm.Int64") return (accepted & orderBigints(view.bigint(index), value)) !== 0;
    const order = type === "Edm.Double" ? orderMixed(view.number(index), value) : MISMATCH;
    return (accepted & order) !== 0;
  };
}

/** A Boolean is read as 0 or 1, so `false` is less than `true`. */
function testNumber(
  name: Uint8Array,
  accepted: number,
  type: "Edm.Double" | "Edm.Boolean",
  value: number,
): Predicate {
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    const order = view.typeOf(index) === type ? orderNumbers(view.number(index), value) : MISMATCH;
    return (accepted & order) !== 0;
  };
}

function testDateTime(name: Uint8Array, accepted: number, ticks: bigint): Predicate {
  const printed = new TextEncoder().encode(printDateTime(ticks));
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    const same = view.typeOf(index) === "Edm.DateTime";
    return (accepted & (same ? orderOf(view.compareDateTime(index, printed)) : MISMATCH)) !== 0;
  };
}

function testBinary(name: Uint8Array, accepted: number, value: Uint8Array): Predicate {
  return (view) => {
    const index = view.find(name);
    if (index < 0) return false;
    const same = view.typeOf(index) === "Edm.Binary";
    return (accepted & (same ? orderBytes(view.bytes(index), value) : MISMATCH)) !== 0;
  };
}

function orderOf(difference: number): number {
  return difference < 0 ? LESS : difference > 0 ? GREATER : EQUAL;
}

export function orderStrings(a: string, b: string): number {
  return a === b ? EQUAL : a < b ? LESS : GREATER;
}

function orderNumbers(a: number, b: number): number {
  return a < b ? LESS : a > b ? GREATER : a === b ? EQUAL : UNORDERED;
}

function orderBigints(a: bigint, b: bigint): number {
  return a < b ? LESS : a > b ? GREATER : EQUAL;
}

/** JavaScript compares a number and a bigint by their mathematical values. */
function orderMixed(a: number, b: bigint): number {
  return a < b ? LESS : a > b ? GREATER : a >= b ? EQUAL : UNORDERED;
}

/** A prefix sorts before the longer value. */
function orderBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    if (a[i] !== b[i]) return a[i]! < b[i]! ? LESS : GREATER;
  }
  return orderNumbers(a.length, b.length);
}

export function always(): boolean {
  return true;
}

export function never(): boolean {
  return false;
}
