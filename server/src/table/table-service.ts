import { ServiceError } from "@rowhouse/protocol/errors";
import { tableAuth } from "../auth/dialect.ts";
import {
  getServiceProperties,
  getServiceStats,
  setServiceProperties,
} from "../catalog/service-operations.ts";
import { storedPolicy } from "../catalog/stored-policy.ts";
import { headerValues } from "../http/header-values.ts";
import type { Service } from "../http/service.ts";
import { versionOf } from "../http/version.ts";
import type { AnyOperation, RequestHead } from "../operation.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { createTable } from "./create-table.ts";
import { deleteEntity } from "./delete-entity.ts";
import { deleteTable } from "./delete-table.ts";
import { entityGroupTransaction } from "./entity-group-transaction.ts";
import { getEntity } from "./get-entity.ts";
import { getTable } from "./get-table.ts";
import { insertEntity } from "./insert-entity.ts";
import { insertOrMergeEntity } from "./insert-or-merge-entity.ts";
import { insertOrReplaceEntity } from "./insert-or-replace-entity.ts";
import { locateTable } from "./locate.ts";
import { mergeEntity } from "./merge-entity.ts";
import { queryEntities } from "./query-entities.ts";
import { queryTables } from "./query-tables.ts";
import { getTableAcl, setTableAcl } from "./table-acl.ts";
import { encodeTableError } from "./table-error.ts";
import { getMetadata, getServiceDocument } from "./table-metadata.ts";
import type { TableContext } from "./table-operation.ts";
import { updateEntity } from "./update-entity.ts";

/** Every operation of the Table service, once. Routing, permissions, logs and metrics follow it. */
export const TABLE_OPERATIONS: readonly AnyOperation<TableContext>[] = [
  queryTables,
  getTable,
  createTable,
  deleteTable,
  queryEntities,
  getEntity,
  insertEntity,
  insertOrReplaceEntity,
  insertOrMergeEntity,
  updateEntity,
  mergeEntity,
  deleteEntity,
  entityGroupTransaction,
  getTableAcl,
  setTableAcl,
  getServiceProperties("GetTableServiceProperties", TABLE_DOCUMENTS),
  setServiceProperties("SetTableServiceProperties", TABLE_DOCUMENTS),
  getServiceStats("GetTableServiceStats", TABLE_DOCUMENTS),
  getServiceDocument,
  getMetadata,
];

/** The Table service, ready to be put behind a front. */
export function tableService(context: TableContext): Service<TableContext> {
  return {
    name: "table",
    product: "Rowhouse-Table/1.0",
    operations: TABLE_OPERATIONS,
    context,
    dialect: tableAuth,
    hasSecondary: true,
    versionForStrangers: undefined,
    starCredentials: false,
    locate: locateTable,
    methodOf,
    versionOf: (head) => versionOf(head, tableAuth),
    refuse,
    encodeError: encodeTableError,
    corsRules: (account, now) => context.properties.corsRules(account, now),
    storedPolicy: (address) => storedPolicy(context.catalog, address),
  };
}

const TUNNELLED = new Set(["MERGE", "PATCH", "PUT", "DELETE"]);

/** PATCH is MERGE by its later name; POST may carry either, and others, in `X-HTTP-Method`. */
function methodOf(head: RequestHead): string {
  let method = head.verb;
  const tunnelled = head.header("x-http-method");
  if (tunnelled !== undefined) {
    if (head.verb !== "POST") throw new ServiceError("XMethodNotUsingPost");
    if (headerValues(head, "x-http-method").length > 1)
      throw new ServiceError("XMethodIncorrectCount");
    method = tunnelled.trim().toUpperCase();
    if (!TUNNELLED.has(method)) throw new ServiceError("XMethodIncorrectValue");
  }
  return method === "PATCH" ? "MERGE" : method;
}

function refuse(_: RequestHead, __: string, allowed: readonly string[]): ServiceError {
  if (allowed.length === 0) return new ServiceError("InvalidQueryParameterValue");
  return new ServiceError("MethodNotAllowed", { headers: [["Allow", allowed.join(", ")]] });
}
