/**
 * A parsed `$filter`: immutable, plain data. A chain of one operator is one node with many clauses,
 * so the depth of a tree is the nesting of its text, not its length.
 *
 * A comparison always has its property on the left: `5 lt Age` parses as `Age gt 5`. A comparison
 * of two literals becomes a constant.
 */
export type FilterNode = OrNode | AndNode | NotNode | ComparisonNode | PropertyNode | ConstantNode;

/** At least two clauses. */
export interface OrNode {
  readonly kind: "or";
  readonly clauses: readonly FilterNode[];
}

/** At least two clauses. */
export interface AndNode {
  readonly kind: "and";
  readonly clauses: readonly FilterNode[];
}

export interface NotNode {
  readonly kind: "not";
  readonly clause: FilterNode;
}

export interface ComparisonNode {
  readonly kind: "comparison";
  readonly property: string;
  readonly operator: ComparisonOperator;
  readonly literal: Literal;
}

/** A bare name: true for entities on which it is a Boolean property with the value `true`. */
export interface PropertyNode {
  readonly kind: "property";
  readonly property: string;
}

export interface ConstantNode {
  readonly kind: "constant";
  readonly value: boolean;
}

export type ComparisonOperator = "eq" | "ne" | "lt" | "le" | "gt" | "ge";

export type Literal =
  | { readonly type: "Edm.String"; readonly value: string }
  | { readonly type: "Edm.Int32"; readonly value: number }
  | { readonly type: "Edm.Int64"; readonly value: bigint }
  | { readonly type: "Edm.Double"; readonly value: number }
  | { readonly type: "Edm.Boolean"; readonly value: boolean }
  /** 100 ns ticks since 0001-01-01. */
  | { readonly type: "Edm.DateTime"; readonly value: bigint }
  /** Lower-case text, 8-4-4-4-12. */
  | { readonly type: "Edm.Guid"; readonly value: string }
  | { readonly type: "Edm.Binary"; readonly value: Uint8Array };
