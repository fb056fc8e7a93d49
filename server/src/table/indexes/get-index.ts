import type { TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS, type IndexAddress, indexAddressOf } from "./index-access.ts";
import { jsonResponse, type ShownIndex } from "./index-json.ts";

/** Get Index, ours: its key, its state, and how far its building has come. Fails with ResourceNotFound (404). */
export const getIndex: TableOperation<IndexAddress, ShownIndex> = {
  name: "GetIndex",
  route: { method: "GET", resource: "index" },
  access: INDEX_ACCESS,
  decode: indexAddressOf,

  async run({ indexes: { catalog, show } }, { account, name }) {
    const kept = await catalog.findOrThrow(account, name);
    return show(account, kept);
  },

  encode: (index) => jsonResponse(200, index),
};
