import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { whenReady } from "../awaitable.ts";
import { parseAccessPolicies, printAccessPolicies } from "../xml/access-policies.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import { type TableAddress, type TableOperation, tableAddressOf } from "./table-operation.ts";

/**
 * Policies decide what shared access signatures may do, so only the account's keys may read or
 * change them. To bearer tokens, the resource does not exist.
 */
const ACCESS = { resourceType: "c", accountSas: [], serviceSas: [], bearer: "never" } as const;

/** Get Table ACL: the stored access policies. Fails with TableNotFound (404). */
export const getTableAcl: TableOperation<TableAddress, readonly AccessPolicy[]> = {
  name: "GetTableACL",
  route: { method: "GET", resource: "entities", comp: "acl" },
  access: ACCESS,
  decode: tableAddressOf,

  run({ catalog }, { account, table }) {
    return whenReady(catalog.find(account, table), (named) => {
      if (!named) throw new ServiceError("TableNotFound");
      return named.value.policies;
    });
  },

  encode: (policies) => xmlResponse(200, printAccessPolicies(policies)),
};

interface SetTableAclInput extends TableAddress {
  readonly policies: readonly AccessPolicy[];
}

/** Set Table ACL: replaces all stored access policies atomically. Fails with TableNotFound (404). */
export const setTableAcl: TableOperation<SetTableAclInput, void> = {
  name: "SetTableACL",
  route: { method: "PUT", resource: "entities", comp: "acl" },
  access: ACCESS,
  body: "buffer",

  decode: (request) => ({
    ...tableAddressOf(request),
    policies: parseAccessPolicies(request.body, TABLE_DOCUMENTS),
  }),

  async run({ catalog }, { account, table, policies }) {
    const changed = await catalog.update(account, table, (value) => ({ ...value, policies }));
    if (!changed) throw new ServiceError("TableNotFound");
  },

  encode: () => ({ status: 204, headers: ["Content-Length", "0"] }),
};
