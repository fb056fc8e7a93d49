import { printLiteral } from "./filter-literal.ts";
import type { FilterNode } from "./filter-tree.ts";

/** Prints a filter as text that parses to the same tree, with few parentheses. */
export function printFilter(filter: FilterNode): string {
  switch (filter.kind) {
    case "or":
    case "and":
      return filter.clauses
        .map((clause) => printClause(clause, filter.kind))
        .join(` ${filter.kind} `);
    case "not":
      return `not ${printClause(filter.clause, "not")}`;
    case "comparison":
      return `${filter.property} ${filter.operator} ${printLiteral(filter.literal)}`;
    case "property":
      return filter.property;
    case "constant":
      return String(filter.value);
  }
}

type Parent = "or" | "and" | "not";

function printClause(clause: FilterNode, parent: Parent): string {
  const text = printFilter(clause);
  return needsParentheses(clause, parent) ? `(${text})` : text;
}

/**
 * A chain inside a chain of its own kind keeps its parentheses, or the two would parse as one.
 * `not (A eq 1)` keeps them for the reader; the grammar does not need them.
 */
function needsParentheses({ kind }: FilterNode, parent: Parent): boolean {
  if (kind === "or") return true;
  if (kind === "and") return parent !== "or";
  return kind === "comparison" && parent === "not";
}
