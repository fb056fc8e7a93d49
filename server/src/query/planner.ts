import { ServiceError } from "@rowhouse/protocol/errors";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import type { SasKeyRange } from "../auth/identity.ts";
import type { KeyPosition, Plan } from "./plan.ts";

/** Chooses what to read for `filter` inside `bounds`. No filter reads everything. */
export function planQuery(_filter: FilterNode | undefined, _bounds?: SasKeyRange): Plan {
  throw new ServiceError("NotImplemented");
}

/** What is left of a plan from a position on, itself included. No row key: the partition's start. */
export function resumePlan(
  _plan: Plan,
  _from: { readonly partitionKey: string; readonly rowKey: KeyPosition["rowKey"] | undefined },
): Plan {
  throw new ServiceError("NotImplemented");
}
