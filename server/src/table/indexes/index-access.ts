import type { Access } from "../../wire/operation.ts";
import type { TableRequest } from "../table-operation.ts";

/** Indexes are the account owner's: only the account's keys may declare, see or drop them. */
export const INDEX_ACCESS: Access = {
  resourceType: "c",
  accountSas: [],
  serviceSas: [],
  bearer: "never",
};

/** An index as a request names it: the case of its name need not be that of its declaration. */
export interface IndexAddress {
  readonly account: string;
  readonly name: string;
}

export function indexAddressOf({ account, location }: TableRequest): IndexAddress {
  return { account: account.name, name: location.name };
}
