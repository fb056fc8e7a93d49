import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import type { TableOperation } from "./table-operation.ts";

/**
 * A POST to `/t/Tables` or anything else below a table: what Create Table becomes when the client's endpoint
 * already names the table. The service takes it for an insert without keys, and clients recognize their mistake
 * by its refusals. It never writes.
 */
export const insertBelowTable: TableOperation<{ account: string; table: string }, never> = {
  name: "InsertEntity",
  route: { method: "POST", resource: "below table" },
  access: { resourceType: "o", accountSas: ["a"], serviceSas: ["a"], bearer: "write" },

  decode: ({ account, location }) => ({ account: account.name, table: location.name }),

  async run({ entities }, { account, table }) {
    const name = await entities.createdName(account, table);
    throw new ServiceError(name === undefined ? "TableNotFound" : "PropertiesNeedValue");
  },

  encode: (none) => none,
};

/** The refusal of every other method below a table. */
export function refuseBelowTable(verb: string): ServiceError {
  return verb === "GET" || verb === "HEAD"
    ? new ServiceError("NotImplemented")
    : new ServiceError("InvalidInput", {
        message: ERROR_TEXTS.keyCountInUrl,
      });
}
