import type { AndNode, ComparisonNode, FilterNode, OrNode } from "@rowhouse/protocol/filter-tree";
import { encodeName } from "@rowhouse/protocol/property-name";
import {
  always,
  COST,
  type Compiled,
  compileComparison,
  isSystemProperty,
  never,
  type Predicate,
} from "./comparison.ts";
import type { EntityView } from "./entity-view.ts";

export type { Predicate };

/**
 * Compiles a filter to closures, once per query, so that testing an entity needs no walk over the
 * tree and no allocation here.
 *
 * Tests have no side effects, so the clauses of a chain run in order of cost.
 */
export function compilePredicate(filter: FilterNode): Predicate {
  return compile(filter).test;
}

function compile(filter: FilterNode): Compiled {
  switch (filter.kind) {
    case "constant":
      return { test: filter.value ? always : never, cost: COST.constant };
    case "property":
      return { test: compileProperty(filter.property), cost: COST.number };
    case "not": {
      const { test, cost } = compile(filter.clause);
      return { test: (view) => !test(view), cost };
    }
    case "and":
    case "or":
      return compileChain(filter);
    case "comparison":
      return compileComparison(filter);
  }
}

function compileChain(filter: AndNode | OrNode): Compiled {
  const clauses = filter.kind === "or" ? compileAlternatives(filter) : filter.clauses.map(compile);
  clauses.sort((a, b) => a.cost - b.cost);
  const cost = clauses.reduce((sum, clause) => sum + clause.cost, 0);
  const tests = clauses.map((clause) => clause.test);
  const [first = never, second] = tests;
  if (second === undefined) return { test: first, cost };
  if (filter.kind === "or") return { test: (view) => passesOne(tests, view), cost };
  // Two clauses are the common case, and looping over them costs as much as a cheap test.
  if (tests.length === 2) return { test: (view) => first(view) && second(view), cost };
  return { test: (view) => passesAll(tests, view), cost };
}

function passesAll(tests: readonly Predicate[], view: EntityView): boolean {
  for (let i = 0; i < tests.length; i++) if (!tests[i]!(view)) return false;
  return true;
}

function passesOne(tests: readonly Predicate[], view: EntityView): boolean {
  for (let i = 0; i < tests.length; i++) if (tests[i]!(view)) return true;
  return false;
}

/** A list `X eq 'a' or X eq 'b' or …` becomes one set lookup: clients send hundreds of clauses. */
function compileAlternatives({ clauses }: OrNode): Compiled[] {
  const lists = new Map<string, Set<string>>();
  for (const clause of clauses) {
    if (!isStringEquality(clause)) continue;
    const list = lists.get(clause.property);
    if (list === undefined) lists.set(clause.property, new Set([clause.literal.value]));
    else list.add(clause.literal.value);
  }
  const compiled: Compiled[] = [];
  for (const [property, list] of lists) {
    if (list.size < LIST_LENGTH_MIN) lists.delete(property);
    else compiled.push({ test: compileList(property, list), cost: COST.text });
  }
  for (const clause of clauses) {
    if (!isStringEquality(clause) || !lists.has(clause.property)) compiled.push(compile(clause));
  }
  return compiled;
}

/** A set lookup decodes the string: 500 ns, as much as six comparisons of stored bytes. */
const LIST_LENGTH_MIN = 6;

function isStringEquality(
  filter: FilterNode,
): filter is ComparisonNode & { readonly literal: { readonly type: "Edm.String" } } {
  return (
    filter.kind === "comparison" && filter.operator === "eq" && filter.literal.type === "Edm.String"
  );
}

function compileList(property: string, list: ReadonlySet<string>): Predicate {
  if (property === "PartitionKey") return (view) => list.has(view.partitionKey);
  if (property === "RowKey") return (view) => list.has(view.rowKey);
  if (property === "Timestamp") return never;
  const name = encodeName(property);
  return (view) => {
    const index = view.find(name);
    return index >= 0 && view.typeOf(index) === "Edm.String" && list.has(view.text(index));
  };
}

function compileProperty(property: string): Predicate {
  if (isSystemProperty(property)) return never;
  const name = encodeName(property);
  return (view) => {
    const index = view.find(name);
    return index >= 0 && view.typeOf(index) === "Edm.Boolean" && view.number(index) === 1;
  };
}
