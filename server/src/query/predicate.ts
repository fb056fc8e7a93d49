import { ServiceError } from "@rowhouse/protocol/errors";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import type { EntityView } from "./entity-view.ts";

/** Whether an entity passes. Pure; keeps nothing of the view. */
export type Predicate = (view: EntityView) => boolean;

export function compilePredicate(_filter: FilterNode): Predicate {
  throw new ServiceError("NotImplemented");
}

/** The same for Query Tables: a filter by `parseTableFilter` over a table's name. */
export function compileTablePredicate(_filter: FilterNode): (tableName: string) => boolean {
  throw new ServiceError("NotImplemented");
}
