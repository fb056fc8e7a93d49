import type { TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS } from "./index-access.ts";
import { jsonResponse, type ShownIndex } from "./index-json.ts";

/** List Indexes, ours: all indexes of the account, by table. */
export const listIndexes: TableOperation<string, readonly ShownIndex[]> = {
  name: "ListIndexes",
  route: { method: "GET", resource: "indexes" },
  access: INDEX_ACCESS,
  decode: ({ account }) => account.name,

  async run({ indexes: { catalog, show } }, account) {
    const all = await catalog.list(account);
    return Promise.all(all.map((kept) => show(account, kept)));
  },

  encode: (indexes) => jsonResponse(200, { indexes }),
};
