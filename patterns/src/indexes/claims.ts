import { entriesOf } from "../model/entry.ts";
import { keepsRows } from "../model/follower.ts";
import { and, type Filter } from "../ports/filter.ts";
import { keyOf } from "../ports/mutation.ts";
import type { Continuation, EntityKey, StoredEntity } from "../ports/tables.ts";
import { pagesWhere } from "../query/pages.ts";
import type { ManagedIndex } from "./control.ts";

/** What an entry claims: that it belongs to this entity. */
export interface Claim {
  readonly base: EntityKey;
  readonly entry: EntityKey;
  /** Absent for a list. */
  readonly stored?: StoredEntity;
}

export interface PageOfClaims {
  readonly claims: readonly Claim[];
  readonly continuation?: Continuation;
}

/** Rows per page of a build. */
export const PAGE_ROWS_MAX = 200;

export interface ClaimsWanted {
  /** Continues an earlier call. */
  readonly from?: Continuation | undefined;
  /** Rows per page. */
  readonly top?: number;
  /** The entries that are rows, of all or of some partitions. */
  readonly where?: Filter | undefined;
}

/** The claims of the entries of an index. */
export async function* claimsIn(
  { session, entity, keeper }: ManagedIndex,
  { from, where, ...wanted }: ClaimsWanted,
): AsyncGenerator<PageOfClaims> {
  if (!keepsRows(keeper)) {
    for await (const { list: entry, members, ...next } of keeper.lists(from)) {
      yield { claims: members.map((base) => ({ entry, base })), ...next };
    }
    return;
  }
  const filter = and(where, entriesOf(entity.rows.typeProperty, keeper.tag));
  const pages = pagesWhere(session, keeper.table, { filter, ...wanted }, from);
  for await (const { entities, continuation } of pages) {
    const claims = entities.flatMap((row) => {
      const base = keeper.baseOf(row);
      return base ? [{ entry: keyOf(row), base, stored: row }] : [];
    });
    yield { claims, ...(continuation && { continuation }) };
  }
}
