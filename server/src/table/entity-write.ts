import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { permitsKey } from "../auth/authorize.ts";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { WireResponse } from "../wire/operation.ts";
import { ifMatchOf } from "./conditions.ts";
import { recordEtag } from "./entity-record.ts";
import type { CommitOutcome, Mutation, StoredEntity } from "./mutation.ts";
import { checkJsonBody } from "./negotiate.ts";
import {
  ODATA_HEADERS,
  type TableAddress,
  type TableContext,
  type TableOperation,
  type TableRequest,
} from "./table-operation.ts";

/** The decoded form of every write of one entity. `$batch` collects several and commits them together. */
export interface EntityWrite extends WriteFacts {
  readonly mutation: Mutation;
}

/** What a write needs to know of its request besides the mutation. */
interface WriteFacts extends TableAddress {
  /** When the request arrived, in milliseconds since 1970, and from where. */
  readonly at: number;
  readonly client: string;
}

export type EntityWriteOperation = TableOperation<EntityWrite, StoredEntity>;

/** A single write is an entity group transaction of one: same path, same rules. */
export async function runEntityWrite(
  context: TableContext,
  write: EntityWrite,
): Promise<StoredEntity> {
  const outcome = await commitMutations(context, write, [write.mutation]);
  if (!outcome.committed) throw outcome.error;
  return outcome.stored[0]!;
}

/**
 * Commits mutations of one partition, all or none, after reporting them to insight.
 * @throws ServiceError if insight does not admit them.
 */
export function commitMutations(
  { entities, insight }: TableContext,
  { account, table: name, at, client }: WriteFacts,
  mutations: readonly Mutation[],
): Awaitable<CommitOutcome> {
  return whenReady(entities.createdName(account, name), (table): Awaitable<CommitOutcome> => {
    if (table === undefined) {
      return { committed: false, index: 0, error: new ServiceError("TableNotFound") };
    }
    const { partitionKey } = mutations[0]!;
    insight.admitWrite({ at, account, table, partitionKey, mutations, client });
    return entities.commit(account, name, mutations);
  });
}

/**
 * Decodes a write to an addressed entity. The keys are those of the URL; the body may repeat them.
 * @throws ServiceError for a malformed body or condition, and AuthorizationFailure for keys outside
 * the range of a SAS.
 */
export function decodeAddressedWrite(
  request: TableRequest,
  kind: "replace" | "merge",
): EntityWrite {
  checkJsonBody(request);
  const { partitionKey, rowKey } = addressOf(request);
  const ifMatch = ifMatchOf(request, "PUT");
  const entity = decodeEntity(request.body, { partitionKey, rowKey });
  return writeOf(request, { kind, partitionKey, rowKey, entity, ifMatch });
}

/** Decodes a delete. A condition is required: a client that forgot it may have meant something else. */
export function decodeDelete(request: TableRequest): EntityWrite {
  const { partitionKey, rowKey } = addressOf(request);
  const ifMatch = ifMatchOf(request, "DELETE");
  if (ifMatch === undefined) throw new ServiceError("MissingRequiredHeader");
  const mutation: Mutation = { kind: "delete", partitionKey, rowKey, entity: undefined, ifMatch };
  return writeOf(request, mutation);
}

/** Decodes an insert, whose keys are in the body. */
export function decodeInsert(request: TableRequest): EntityWrite {
  checkJsonBody(request);
  const entity = decodeEntity(request.body);
  const { partitionKey, rowKey } = entity;
  checkPermitted(request, partitionKey, rowKey);
  const mutation: Mutation = { kind: "insert", partitionKey, rowKey, entity, ifMatch: undefined };
  return writeOf(request, mutation);
}

/** The response to every write but an insert: the new ETag, if there is one, and no body. */
export function encodeUpdated({ record }: StoredEntity): WireResponse {
  return {
    status: 204,
    headers: record ? [...ODATA_HEADERS, "ETag", recordEtag(record)] : ODATA_HEADERS,
  };
}

function writeOf(
  { account, arrivedAt, location, remoteAddress }: TableRequest,
  mutation: Mutation,
): EntityWrite {
  return {
    account: account.name,
    table: location.name,
    at: arrivedAt,
    client: remoteAddress,
    mutation,
  };
}

function addressOf(request: TableRequest): { partitionKey: string; rowKey: string } {
  const { partitionKey, rowKey } = request.location;
  if (partitionKey === undefined || rowKey === undefined) {
    throw new ServiceError("InvalidInput", { message: ERROR_TEXTS.keySyntaxInUrl });
  }
  checkPermitted(request, partitionKey, rowKey);
  return { partitionKey, rowKey };
}

function checkPermitted(request: TableRequest, partitionKey: string, rowKey: string): void {
  if (!permitsKey(request.identity, partitionKey, rowKey)) {
    throw new ServiceError("AuthorizationFailure");
  }
}
