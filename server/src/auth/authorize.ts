import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import type {
  AccountSasIdentity,
  BearerIdentity,
  Identity,
  ServiceSasIdentity,
} from "../wire/identity.ts";
import type { Access, RequestHead } from "../wire/operation.ts";
import { type AuthDialect, noAuthenticationInformation } from "./dialect.ts";
import { namedVersion } from "./named-version.ts";

/**
 * Decides whether the caller may perform an operation. Runs before the body is read; the services
 * themselves make the decisions that depend on data (key ranges, public containers), with
 * `permitsKey` and `refuseAnonymous`.
 * @throws ServiceError, the first that applies in the order of the reference.
 */
export function authorize(
  head: RequestHead,
  identity: Identity,
  access: Access,
  dialect: AuthDialect,
): void {
  if (head.secondary && !isRead(head.verb, access)) {
    throw new ServiceError("InsufficientAccountPermissions", {
      message: ERROR_TEXTS.secondaryIsReadOnly,
    });
  }
  switch (identity.kind) {
    case "shared-key":
      break;
    case "service-sas":
      authorizeServiceSas(head, identity, access, dialect);
      break;
    case "account-sas":
      authorizeAccountSas(identity, access, dialect);
      break;
    case "bearer":
      authorizeBearer(identity, access);
      break;
    case "anonymous":
      if (access.anonymous !== true) throw refuseAnonymous(head.verb);
  }
}

function isRead(verb: string, access: Access): boolean {
  return (verb === "GET" || verb === "HEAD") && access.bearer !== "write";
}

function authorizeAccountSas(
  identity: AccountSasIdentity,
  access: Access,
  dialect: AuthDialect,
): void {
  if (!identity.services.includes(dialect.letter)) {
    throw new ServiceError("AuthorizationServiceMismatch");
  }
  if (access.accountSas.length === 0) throw new ServiceError("AuthorizationFailure");
  if (!sharesLetter(identity.resourceTypes, access.resourceType)) {
    throw new ServiceError("AuthorizationResourceTypeMismatch");
  }
  if (!grants(identity.permissions, access.accountSas)) {
    throw new ServiceError("AuthorizationPermissionMismatch");
  }
}

function authorizeServiceSas(
  head: RequestHead,
  identity: ServiceSasIdentity,
  access: Access,
  { refusalsHiddenBefore }: AuthDialect,
): void {
  if (access.serviceSas.length === 0) throw new ServiceError("AuthorizationFailure");
  if (grants(identity.permissions, access.serviceSas)) return;
  const version = namedVersion(head);
  const isHidden = version !== undefined && version < refusalsHiddenBefore;
  throw new ServiceError(isHidden ? "ResourceNotFound" : "AuthorizationPermissionMismatch");
}

function authorizeBearer(identity: BearerIdentity, access: Access): void {
  if (access.bearer === "never") throw new ServiceError("ResourceNotFound");
  const granted =
    identity.role === "contributor" || (identity.role === "reader" && access.bearer === "read");
  if (!granted) throw new ServiceError("AuthorizationPermissionMismatch");
}

function sharesLetter(granted: string, alternatives: string): boolean {
  for (const letter of alternatives) if (granted.includes(letter)) return true;
  return false;
}

/** Whether all letters of at least one alternative are granted. */
function grants(permissions: string, alternatives: readonly string[]): boolean {
  return alternatives.some((letters) => {
    for (const letter of letters) if (!permissions.includes(letter)) return false;
    return true;
  });
}

/** The error for a caller without credentials: a read must not reveal whether a resource exists. */
export function refuseAnonymous(verb: string): ServiceError {
  return verb === "GET" || verb === "HEAD"
    ? new ServiceError("ResourceNotFound")
    : noAuthenticationInformation();
}

/** Whether the caller may access this table at all: false only for a table SAS of another table. */
export function permitsTable(identity: Identity, table: string): boolean {
  return identity.kind !== "service-sas" || identity.table === table.toLowerCase();
}

/** Whether an entity is in the key range of the caller's table SAS; true for all other callers. */
export function permitsKey(identity: Identity, partitionKey: string, rowKey: string): boolean {
  if (identity.kind !== "service-sas" || identity.keyRange === undefined) return true;
  const { startPartitionKey, startRowKey, endPartitionKey, endRowKey } = identity.keyRange;
  if (startPartitionKey !== undefined) {
    if (partitionKey < startPartitionKey) return false;
    if (partitionKey === startPartitionKey && startRowKey !== undefined && rowKey < startRowKey) {
      return false;
    }
  }
  if (endPartitionKey !== undefined) {
    if (partitionKey > endPartitionKey) return false;
    if (partitionKey === endPartitionKey && endRowKey !== undefined && rowKey > endRowKey) {
      return false;
    }
  }
  return true;
}
