import { ServiceError } from "@rowhouse/protocol/errors";
import { tableAuth } from "../auth/dialect.ts";
import { versionOf } from "../auth/version.ts";
import {
  getServiceProperties,
  getServiceStats,
  setServiceProperties,
} from "../catalog/service-operations.ts";
import { storedPolicy } from "../catalog/stored-policy.ts";
import type { Service } from "../http/service.ts";
import { headerValues } from "../wire/header-values.ts";
import type { AnyOperation, RequestHead } from "../wire/operation.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { createTable } from "./create-table.ts";
import { deleteEntity } from "./delete-entity.ts";
import { deleteTable } from "./delete-table.ts";
import { entityGroupTransaction } from "./entity-group-transaction.ts";
import { getEntity } from "./get-entity.ts";
import { getTable } from "./get-table.ts";
import { getTableStatistics } from "./get-table-statistics.ts";
import { repairIndex, verifyIndex } from "./indexes/check-index.ts";
import { createIndex } from "./indexes/create-index.ts";
import { detachIndex } from "./indexes/detach-index.ts";
import { dropIndex } from "./indexes/drop-index.ts";
import { dryRunIndex } from "./indexes/dry-run-index.ts";
import { getIndex } from "./indexes/get-index.ts";
import { listIndexes } from "./indexes/list-indexes.ts";
import { insertBelowTable, refuseBelowTable } from "./insert-below-table.ts";
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
import { methodOf } from "./tunnelled-method.ts";
import { updateEntity } from "./update-entity.ts";

/** All operations of the Table service. Routing, permissions, logs and metrics derive from this list. */
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
  insertBelowTable,
  entityGroupTransaction,
  getTableAcl,
  setTableAcl,
  getTableStatistics,
  listIndexes,
  getIndex,
  createIndex,
  dropIndex,
  verifyIndex,
  repairIndex,
  detachIndex,
  dryRunIndex,
  getServiceProperties("GetTableServiceProperties", TABLE_DOCUMENTS),
  setServiceProperties("SetTableServiceProperties", TABLE_DOCUMENTS),
  getServiceStats("GetTableServiceStats"),
  getServiceDocument,
  getMetadata,
];

/** The Table service, to be served by a request pipeline. */
export function tableService(context: TableContext): Service<TableContext> {
  return {
    name: "table",
    product: "Rowhouse-Table/1.0",
    operations: TABLE_OPERATIONS,
    context,
    dialect: tableAuth,
    hasSecondary: true,
    versionForUnauthenticated: undefined,
    starCredentials: false,
    locate: locateTable,
    methodOf: (head) => methodOf(head.verb, tunnelledIn(head)),
    versionOf: (head) => versionOf(head, tableAuth),
    refuse,
    encodeError: encodeTableError,
    corsRules: (account, now) => context.properties.corsRules(account, now),
    storedPolicy: (address) => storedPolicy(context.catalog, address),
  };
}

/** Repeated headers as a list of their values, because `header` returns only one of them. */
function tunnelledIn(head: RequestHead): string | undefined {
  const name = "x-http-method";
  return head.header(name) === undefined ? undefined : headerValues(head, name).join();
}

function refuse(head: RequestHead, method: string, allowed: readonly string[]): ServiceError {
  if (head.location.resource === "below table") return refuseBelowTable(method);
  if (allowed.length === 0) return new ServiceError("InvalidQueryParameterValue");
  return new ServiceError("MethodNotAllowed", { headers: [["Allow", allowed.join(", ")]] });
}
