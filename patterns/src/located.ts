import type { EntityDefinition, Infer } from "./entities/entity.ts";
import type { KeyOf, Repository } from "./entities/repository.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { Fields } from "./model/entity-rows.ts";
import type { Indexes } from "./model/follower.ts";
import { type Openable, openable } from "./model/openable.ts";
import type { Saved } from "./query/query.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import type { Session } from "./store/session.ts";

/** The database of the account that a lookup row names; undefined for the database that was opened. */
export type Locate<Entry> = (entry: Entry) => Session | undefined;

export interface Located<
  T,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
  Entry,
> {
  /** The repository of the account that the entry names. Sends no request. */
  at(entry: Entry): Repository<T, P, R, I>;
  /** The entity that the entry names, from its account. 1 R, 1 E. */
  get(entry: Entry): Promise<Saved<T> | undefined>;
  /** Concurrent point queries; the results are in the order of `entries`. n R, n E. */
  getMany(entries: readonly Entry[]): Promise<(Saved<T> | undefined)[]>;
}

/**
 * Entities in several accounts, each found through a lookup row that holds its key and its account: an entity
 * of its own, or an index entry with copied fields.
 */
export function located<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
  Entry extends KeyOf<P, R>,
>(
  definition: EntityDefinition<string, F, P, R, I>,
  locate: Locate<Entry>,
): Openable<Located<Infer<F>, P, R, I, Entry>> {
  return openable([definition.table], (home): Located<Infer<F>, P, R, I, Entry> => {
    const opened = new Map<Session, Repository<Infer<F>, P, R, I>>();
    const at = (entry: Entry) => {
      const session = locate(entry) ?? home;
      const repository = opened.get(session) ?? definition.open(session);
      opened.set(session, repository);
      return repository;
    };
    const get = (entry: Entry) => at(entry).get(entry);
    return { at, get, getMany: (entries) => mapBounded(entries, LOOKUPS_AT_ONCE, get) };
  });
}
