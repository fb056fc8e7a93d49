import { ServiceError } from "./errors.ts";
import type { FilterNode } from "./filter-tree.ts";

/** Reads a `$filter` over entities. @throws ServiceError InvalidInput, NotImplemented. */
export function parseFilter(_text: string): FilterNode {
  throw new ServiceError("NotImplemented");
}

/** Reads a `$filter` of Query Tables: over `TableName`, a string. Throws the same. */
export function parseTableFilter(_text: string): FilterNode {
  throw new ServiceError("NotImplemented");
}
