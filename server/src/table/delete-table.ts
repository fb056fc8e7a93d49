import { ServiceError } from "@rowhouse/protocol/errors";
import { refuseConditions } from "./conditions.ts";
import { keptByServer } from "./entity-store.ts";
import {
  ODATA_HEADERS,
  type TableAddress,
  type TableOperation,
  tableAddressOf,
} from "./table-operation.ts";

/**
 * Delete Table. Fails with ResourceNotFound (404). The name can be reused immediately, where Azure
 * takes forty seconds; the entities are freed in the background. Its indexes go with it.
 */
export const deleteTable: TableOperation<TableAddress, void> = {
  name: "DeleteTable",
  route: { method: "DELETE", resource: "table" },
  access: { resourceType: "c", accountSas: ["d"], serviceSas: [], bearer: "write" },

  decode(request) {
    refuseConditions(request);
    return tableAddressOf(request);
  },

  async run({ indexes, reaper }, { account, table }) {
    const removed = await indexes.catalog.removeTable(account, table, keptByServer);
    if (!removed) throw new ServiceError("ResourceNotFound");
    reaper.wake();
  },

  encode: () => ({ status: 204, headers: ODATA_HEADERS }),
};
