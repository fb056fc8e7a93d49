import type { DeclaredIndex, Session } from "../store/session.ts";

/** What `db.provision` creates for a definition or a worker. */
export interface Needs {
  readonly tables?: readonly string[];
  readonly queues?: readonly string[];
  readonly containers?: readonly string[];
  /** Indexes that are ready as long as their entities do not exist. */
  readonly declared?: readonly DeclaredIndex[];
}

/** Anything `db.open` can open: entities, and the definitions of the other patterns. */
export interface Openable<Api> extends Needs {
  open(session: Session): Api;
  /** Every table it uses. */
  readonly tables: readonly string[];
}

/**
 * A definition whose API is typed but works on untyped rows. `Api` must match what `open` returns: rows are
 * encoded and decoded by the declaration that the types were inferred from.
 */
export function openable<Api>(
  tables: readonly string[],
  open: (session: Session) => unknown,
  needs: Omit<Needs, "tables"> = {},
): Openable<Api> {
  return { ...needs, tables, open: (session) => open(session) as Api };
}
