import type { Database } from "../database.ts";
import type { Openable } from "./entity.ts";

/**
 * A definition whose API is declared by types and carried out without them. `Api` must say what `open`
 * returns: rows are encoded and decoded by the declaration that the types were inferred from.
 */
export function openable<Api>(
  tables: readonly string[],
  open: (database: Database) => unknown,
): Openable<Api> {
  return { tables, open: (database) => open(database) as Api };
}
