import {
  parseNumberLiteral,
  parseTypedLiteral,
  printLiteral,
} from "@rowhouse/protocol/filter-literal";
import type { ComparisonOperator, FilterNode, Literal } from "@rowhouse/protocol/filter-tree";
import { isPropertyName } from "@rowhouse/protocol/property-name";

/** A line of the builder. */
export interface Condition {
  readonly property: string;
  readonly operator: ComparisonOperator;
  readonly type: Literal["type"];
  /** The value without quotes or prefix. */
  readonly value: string;
}

/** What the builder can show: conditions that all hold, or of which one does. */
export interface Built {
  readonly join: "and" | "or";
  readonly conditions: readonly Condition[];
}

/** Undefined for a tree that the builder cannot show; it stays text. */
export function toBuilder(tree: FilterNode | undefined): Built | undefined {
  if (tree === undefined) return { join: "and", conditions: [] };
  if (tree.kind === "comparison") return { join: "and", conditions: [toCondition(tree)] };
  if (tree.kind !== "and" && tree.kind !== "or") return undefined;
  const conditions: Condition[] = [];
  for (const clause of tree.clauses) {
    if (clause.kind !== "comparison") return undefined;
    conditions.push(toCondition(clause));
  }
  return { join: tree.kind, conditions };
}

function toCondition({
  property,
  operator,
  literal,
}: Extract<FilterNode, { kind: "comparison" }>): Condition {
  const text = printLiteral(literal);
  const [, quoted] = /^(?:datetime|guid|X)'(.*)'$/.exec(text) ?? [];
  const value =
    literal.type === "Edm.String"
      ? literal.value
      : (quoted ?? (literal.type === "Edm.Int64" ? text.slice(0, -1) : text));
  return { property, operator, type: literal.type, value };
}

/** Undefined if there is nothing to ask; a text if a condition is not complete: what is missing. */
export function fromBuilder({ join, conditions }: Built): FilterNode | undefined | string {
  const clauses: FilterNode[] = [];
  for (const { property, operator, type, value } of conditions) {
    if (!isPropertyName(property))
      return property === "" ? "Choose a property." : `“${property}” is no property name.`;
    const literal = readLiteral(type, value);
    if (!literal) return `“${value}” is no ${type.slice("Edm.".length)}.`;
    clauses.push({ kind: "comparison", property, operator, literal });
  }
  if (clauses.length < 2) return clauses[0];
  return { kind: join, clauses };
}

export function readLiteral(type: Literal["type"], value: string): Literal | undefined {
  switch (type) {
    case "Edm.String":
      return { type, value };
    case "Edm.Boolean":
      return value === "true" || value === "false" ? { type, value: value === "true" } : undefined;
    case "Edm.Int32":
      return ofType(type, value);
    case "Edm.Int64":
      return /^-?\d+$/.test(value) ? ofType(type, `${value}L`) : undefined;
    case "Edm.Double":
      if (value === "NaN") return { type, value: Number.NaN };
      if (/^-?INF$/.test(value))
        return {
          type,
          value: value === "INF" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY,
        };
      return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value) ? ofType(type, `${value}d`) : undefined;
    case "Edm.DateTime":
      return parseTypedLiteral("datetime", value);
    case "Edm.Guid":
      return parseTypedLiteral("guid", value);
    case "Edm.Binary":
      return parseTypedLiteral("x", value);
  }
}

function ofType(type: Literal["type"], text: string): Literal | undefined {
  const literal = /^-?\d/.test(text) ? parseNumberLiteral(text) : undefined;
  return literal?.type === type ? literal : undefined;
}
