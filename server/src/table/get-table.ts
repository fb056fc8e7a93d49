import { ServiceError } from "@rowhouse/protocol/errors";
import { whenReady } from "../awaitable.ts";
import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { tableJson } from "./table-json.ts";
import {
  ODATA_HEADERS,
  type TableAddress,
  type TableOperation,
  tableAddressOf,
} from "./table-operation.ts";

interface GetTableInput extends TableAddress {
  readonly level: MetadataLevel;
}

interface GetTableOutput {
  readonly name: string;
  readonly level: MetadataLevel;
}

/** Get one table, with which older clients test its existence. Fails with ResourceNotFound (404). */
export const getTable: TableOperation<GetTableInput, GetTableOutput> = {
  name: "QueryTable",
  route: { method: "GET", resource: "table" },
  access: { resourceType: "sc", accountSas: ["l"], serviceSas: [], bearer: "read" },

  decode: (request) => ({ ...tableAddressOf(request), level: negotiateLevel(request) }),

  run({ catalog }, { account, table, level }) {
    return whenReady(catalog.find(account, table), (named) => {
      if (!named) throw new ServiceError("ResourceNotFound");
      return { name: named.name, level };
    });
  },

  encode({ name, level }, request) {
    return {
      status: 200,
      headers: [...ODATA_HEADERS, "Content-Type", contentTypeOf(level)],
      body: tableJson(request, name, level),
    };
  },
};
