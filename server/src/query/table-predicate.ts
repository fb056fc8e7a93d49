import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import { ACCEPTED, MISMATCH, orderStrings } from "./comparison.ts";

/**
 * A filter by `parseTableFilter` as a test of a table's name. Names are compared as they were
 * created, case and all: a listing by prefix asks for `ge 'My'` and `lt 'My{'`.
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
