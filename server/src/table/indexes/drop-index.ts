import { ODATA_HEADERS, type TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS, type IndexAddress, indexAddressOf } from "./index-access.ts";

/** Drop Index, ours: gone at once, in every state; its entries are freed in the background. */
export const dropIndex: TableOperation<IndexAddress, void> = {
  name: "DropIndex",
  route: { method: "DELETE", resource: "index" },
  access: INDEX_ACCESS,
  decode: indexAddressOf,

  run({ indexes: { catalog } }, { account, name }) {
    return catalog.drop(account, name);
  },

  encode: () => ({ status: 204, headers: ODATA_HEADERS }),
};
