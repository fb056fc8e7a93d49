import type {
  ComparisonNode,
  ComparisonOperator,
  FilterNode,
} from "@rowhouse/protocol/filter-tree";

/**
 * The same filter with `not` only directly above the test of a property, chains flattened, and no
 * constants unless the whole filter is one. It never grows by more than its `not`s.
 *
 * `not` negates the result of a test, so De Morgan's laws hold. But an operator cannot be inverted
 * in general: where X is missing, `not (X ne 'a')` is true and `X eq 'a'` is false. It can for the
 * keys, which are never missing and always strings.
 */
export function normalForm(filter: FilterNode): FilterNode {
  return normalize(filter, false);
}

/** A comparison that depends only on a key. */
export interface KeyComparison extends ComparisonNode {
  readonly property: "PartitionKey" | "RowKey";
  readonly literal: { readonly type: "Edm.String"; readonly value: string };
}

export function isKeyComparison(filter: FilterNode): filter is KeyComparison {
  return (
    filter.kind === "comparison" &&
    (filter.property === "PartitionKey" || filter.property === "RowKey") &&
    filter.literal.type === "Edm.String"
  );
}

function normalize(filter: FilterNode, negated: boolean): FilterNode {
  switch (filter.kind) {
    case "constant":
      return { kind: "constant", value: filter.value !== negated };
    case "not":
      return normalize(filter.clause, !negated);
    case "comparison":
      if (negated && isKeyComparison(filter)) {
        return { ...filter, operator: OPPOSITE[filter.operator] };
      }
      return negated ? { kind: "not", clause: filter } : filter;
    case "property":
      return negated ? { kind: "not", clause: filter } : filter;
    case "and":
    case "or":
      return normalizeChain(
        (filter.kind === "and") === negated ? "or" : "and",
        filter.clauses,
        negated,
      );
  }
}

function normalizeChain(
  kind: "and" | "or",
  clauses: readonly FilterNode[],
  negated: boolean,
): FilterNode {
  const result: FilterNode[] = [];
  for (const clause of clauses) {
    const normal = normalize(clause, negated);
    if (normal.kind === "constant") {
      if (normal.value === (kind === "or")) return normal;
    } else if (normal.kind === kind) {
      for (const inner of normal.clauses) result.push(inner);
    } else {
      result.push(normal);
    }
  }
  // An empty chain: every clause was the neutral constant.
  if (result.length === 0) return { kind: "constant", value: kind === "and" };
  return result.length === 1 ? result[0]! : { kind, clauses: result };
}

const OPPOSITE: Record<ComparisonOperator, ComparisonOperator> = {
  eq: "ne",
  ne: "eq",
  lt: "ge",
  le: "gt",
  gt: "le",
  ge: "lt",
};
