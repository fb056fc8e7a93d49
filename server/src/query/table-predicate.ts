import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import { ACCEPTED, MISMATCH, orderStrings } from "./comparison.ts";

/**
 * Compiles a filter of `parseTableFilter` to a test of a table's name. The comparison uses the name
 * as created and is case-sensitive: a listing by prefix sends `ge 'My'` and `lt 'My{'`.
 */
export function compileTablePredicate(filter: FilterNode): (tableName: string) => boolean {
  switch (filter.kind) {
    case "constant":
      return () => filter.value;
    case "property":
      return () => false;
    case "not": {
      const test = compileTablePredicate(filter.clause);
      return (name) => !test(name);
    }
    case "and":
    case "or": {
      const tests = filter.clauses.map(compileTablePredicate);
      if (filter.kind === "and") return (name) => tests.every((test) => test(name));
      return (name) => tests.some((test) => test(name));
    }
    case "comparison": {
      const accepted = ACCEPTED[filter.operator];
      const { literal } = filter;
      if (literal.type !== "Edm.String") return () => (accepted & MISMATCH) !== 0;
      return (name) => (accepted & orderStrings(name, literal.value)) !== 0;
    }
  }
}
