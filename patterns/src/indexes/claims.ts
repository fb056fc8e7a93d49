import { ageOf, entriesOf } from "../model/entry.ts";
import { keepsRows } from "../model/follower.ts";
import { keyOf } from "../ports/mutation.ts";
import type { Continuation, EntityKey } from "../ports/tables.ts";
import { pagesWhere } from "../query/pages.ts";
import type { ManagedIndex } from "./control.ts";

/** What an entry claims: that it belongs to this entity. */
export interface Claim {
  readonly base: EntityKey;
  readonly entry: EntityKey;
  readonly age: number;
}

export interface PageOfClaims {
  readonly claims: readonly Claim[];
  readonly continuation?: Continuation;
}

/** Rows per page. */
export const PAGE_ROWS_MAX = 200;
/** Any writer may change a list at any time, so the list's age says nothing about a member: it counts as settled. */
export const LIST_MEMBER_AGE_MS = Number.POSITIVE_INFINITY;

/** The claims of all entries of an index, from the continuation of an earlier call. */
export async function* claimsIn(
  { session, entity, keeper }: ManagedIndex,
  from?: Continuation,
): AsyncGenerator<PageOfClaims> {
  if (!keepsRows(keeper)) {
    for await (const { list: entry, members, ...next } of keeper.lists(from)) {
      yield { claims: members.map((base) => ({ entry, base, age: LIST_MEMBER_AGE_MS })), ...next };
    }
    return;
  }
  const filter = entriesOf(entity.rows.typeProperty, keeper.tag);
  const pages = pagesWhere(session, keeper.table, { filter, top: PAGE_ROWS_MAX }, from);
  for await (const { entities, continuation } of pages) {
    const claims = entities.flatMap((row) => {
      const base = keeper.baseOf(row);
      return base ? [{ entry: keyOf(row), base, age: ageOf(row) }] : [];
    });
    yield { claims, ...(continuation && { continuation }) };
  }
}
