import type { TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS, type IndexAddress, indexAddressOf } from "./index-access.ts";
import { jsonResponse } from "./index-json.ts";
import { patternDeclaration } from "./pattern-declaration.ts";

export interface DetachedIndex {
  readonly name: string;
  readonly table: string;
  /** How the pattern library carries the table on; undefined if it cannot. */
  readonly declaration?: string;
  /** Why it cannot. */
  readonly problem?: string;
}

/**
 * Detach Index, ours: its table becomes an ordinary one with the entries it has, and is kept no longer. Fails with
 * InvalidInput (400) unless it is ready.
 */
export const detachIndex: TableOperation<IndexAddress, DetachedIndex> = {
  name: "DetachIndex",
  route: { method: "POST", resource: "index", comp: "detach" },
  access: INDEX_ACCESS,
  decode: indexAddressOf,

  async run({ indexes: { catalog } }, { account, name }) {
    const { table, index } = await catalog.detach(account, name);
    return { name: index.name, table: table.name, ...patternDeclaration(index) };
  },

  encode: (detached) => jsonResponse(200, detached),
};
