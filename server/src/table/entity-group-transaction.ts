import { randomUUID } from "node:crypto";
import { type Batch, type BatchPart, parseBatch } from "@rowhouse/protocol/batch-mime";
import {
  type BatchPosition,
  type BatchResponse,
  type BatchResponsePart,
  batchErrorMessage,
  batchResponseType,
  printBatchResponse,
  tooManyOperations,
} from "@rowhouse/protocol/batch-response";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { authorize, permitsTable } from "../auth/authorize.ts";
import { tableAuth } from "../auth/dialect.ts";
import { copyOf, isLent } from "../wire/body-bytes.ts";
import { printErrorTime, tableErrorJson } from "../wire/error-body.ts";
import { toServiceError } from "../wire/error-response.ts";
import type { Gate } from "../wire/gate.ts";
import type { Operation, RefusalInside, WireRequest, WireResponse } from "../wire/operation.ts";
import { Router } from "../wire/router.ts";
import { deleteEntity } from "./delete-entity.ts";
import { recordEtag } from "./entity-record.ts";
import { commitMutations, type EntityWrite, type EntityWriteOperation } from "./entity-write.ts";
import { getEntity } from "./get-entity.ts";
import { describeInserted, insertEntity } from "./insert-entity.ts";
import { insertOrMergeEntity } from "./insert-or-merge-entity.ts";
import { insertOrReplaceEntity } from "./insert-or-replace-entity.ts";
import type { TableResource } from "./locate.ts";
import { mergeEntity } from "./merge-entity.ts";
import type { StoredEntity } from "./mutation.ts";
import { contentTypeOf, levelForErrors } from "./negotiate.ts";
import { PartRequest } from "./part-request.ts";
import { preferenceOf } from "./prefer.ts";
import { queryEntities } from "./query-entities.ts";
import { ODATA_HEADERS, type TableContext, type TableOperation } from "./table-operation.ts";
import { overrides } from "./tunnelled-method.ts";
import { updateEntity } from "./update-entity.ts";

const WRITES: readonly EntityWriteOperation[] = [
  insertEntity,
  insertOrReplaceEntity,
  insertOrMergeEntity,
  updateEntity,
  mergeEntity,
  deleteEntity,
];
const writes = new Router(WRITES);
const reads = new Router<TableOperation<unknown, unknown>>([getEntity, queryEntities]);

/**
 * Entity Group Transaction, `POST /$batch`: up to 100 writes of one partition, all or none; or one
 * query. Each part is decoded and encoded by its own operation, and all writes go into one commit.
 * If the body can be parsed, the status is 202; a failure is reported inside, once, with its index.
 */
export const entityGroupTransaction: Operation<
  TableContext,
  BatchInput,
  BatchOutcome,
  TableResource
> = {
  name: "EntityGroupTransaction",
  route: { method: "POST", resource: "batch" },
  // Any permission on entities admits the batch; each operation inside is checked for its own.
  access: {
    resourceType: "o",
    accountSas: ["r", "a", "u", "d"],
    serviceSas: ["r", "a", "u", "d"],
    bearer: "read",
  },
  body: "buffer",

  decode: (request) => ({
    batch: parseBatch(request.header("content-type"), request.body),
    outer: request,
  }),

  async run(context, { batch, outer }) {
    return batch.kind === "query"
      ? runQuery(context, batch.part, outer)
      : runChangeset(context, batch.operations, outer);
  },

  encode({ response, refusal }) {
    const ids = { batch: randomUUID(), changeset: randomUUID() };
    return {
      status: 202,
      headers: [...ODATA_HEADERS, "Content-Type", batchResponseType(ids)],
      body: printBatchResponse(response, ids),
      refusal,
    };
  },
};

interface BatchInput {
  readonly batch: Batch;
  /** What the parts have from the request that carries them. */
  readonly outer: WireRequest;
}

interface BatchOutcome {
  readonly response: BatchResponse;
  /** The error with which the whole batch was refused, as in its response. */
  readonly refusal?: RefusalInside;
}

/** One change in progress: its request, its operation, and what the operation decoded. */
interface Change {
  readonly request: PartRequest;
  readonly operation: EntityWriteOperation;
  readonly write: EntityWrite;
}

async function runChangeset(
  context: TableContext,
  parts: readonly BatchPart[],
  outer: WireRequest,
): Promise<BatchOutcome> {
  const place = { kind: "changeset", operations: parts.length } as const;
  if (parts.length > LIMITS.transactionOperationsMax) {
    const last = LIMITS.transactionOperationsMax - 1;
    const request = new PartRequest(outer, parts[last]!);
    return failed("changeset", tooManyOperations(), context, request);
  }
  const changes: Change[] = [];
  for (const [index, part] of parts.entries()) {
    const before = changes[index - 1];
    const request = new PartRequest(outer, part, before?.request);
    try {
      changes.push(decodeChange(outer, request, before));
    } catch (error) {
      const refusal = indexed(toServiceError(error), { ...place, index });
      return failed("changeset", refusal, context, request);
    }
  }
  const refused = (error: ServiceError, index: number) => {
    return failed(
      "changeset",
      indexed(error, { ...place, index }),
      context,
      changes[index]!.request,
    );
  };
  const { gate } = context;
  const refusal = checkTogether(changes) ?? (gate && (await passGate(gate, changes)));
  if (refusal) return refused(refusal.error, refusal.index);

  const mutations = changes.map(({ write }) => write.mutation);
  const outcome = await commitMutations(context, changes[0]!.write, mutations);
  if (!outcome.committed) return refused(outcome.error, outcome.index);
  const done = changes.map((change, i) => success(change, outcome.stored[i]!));
  return { response: { kind: "changeset", parts: done } };
}

/** @throws ServiceError for an operation that is not allowed in a transaction or to this caller. */
function decodeChange(
  outer: WireRequest,
  request: PartRequest,
  before: Change | undefined,
): Change {
  const operation =
    before && isSameBesidesBody(request.part, before.request.part)
      ? before.operation
      : permittedWrite(outer, request);
  return { request, operation, write: operation.decode(request) };
}

function permittedWrite(outer: WireRequest, request: PartRequest): EntityWriteOperation {
  const operation = writes.find(request);
  if (!operation) throw new ServiceError("InvalidInput");
  permit(outer, request, operation);
  return operation;
}

/** Whether the parts differ only in their bodies, as consecutive inserts do. */
function isSameBesidesBody(part: BatchPart, before: BatchPart): boolean {
  return (
    part.headers === before.headers && part.url === before.url && part.method === before.method
  );
}

/** A part has the caller of the enclosing request, and needs the rights of its own operation. */
function permit(
  outer: WireRequest,
  request: PartRequest,
  { access }: Pick<TableOperation<unknown, unknown>, "access">,
): void {
  const needed = typeof access === "function" ? access(request) : access;
  authorize(outer, outer.identity, needed, tableAuth);
  if (!permitsTable(outer.identity, request.location.name))
    throw new ServiceError("AuthorizationFailure");
}

/** The reason why a change, and so the whole transaction, is refused. */
interface RefusedChange {
  readonly error: ServiceError;
  readonly index: number;
}

/** Checks that all changes are in one table and one partition, and each entity occurs once. */
function checkTogether(changes: readonly Change[]): RefusedChange | undefined {
  const first = changes[0]!.write;
  const rowKeys = new Set<string>();
  for (const [index, { write }] of changes.entries()) {
    const { mutation, table } = write;
    if (
      mutation.partitionKey !== first.mutation.partitionKey ||
      (table !== first.table && table.toLowerCase() !== first.table.toLowerCase())
    ) {
      return { error: new ServiceError("CommandsInBatchActOnDifferentPartitions"), index };
    }
    if (rowKeys.has(mutation.rowKey))
      return { error: new ServiceError("InvalidDuplicateRow"), index };
    rowKeys.add(mutation.rowKey);
  }
  return undefined;
}

async function passGate(
  gate: Gate,
  changes: readonly Change[],
): Promise<RefusedChange | undefined> {
  for (const [index, { operation, write }] of changes.entries()) {
    try {
      await gate.enter({ operation: operation.name, resource: write.table });
    } catch (error) {
      return { error: toServiceError(error), index };
    }
  }
  return undefined;
}

async function runQuery(
  context: TableContext,
  part: BatchPart,
  outer: WireRequest,
): Promise<BatchOutcome> {
  const request = new PartRequest(outer, part);
  try {
    const operation = reads.find(request);
    if (!operation) throw new ServiceError("InvalidInput");
    permit(outer, request, operation);
    await context.gate?.enter({ operation: operation.name, resource: request.location.name });
    const output = await operation.run(context, operation.decode(request));
    const response = operation.encode(output, request);
    const answer: BatchResponsePart = {
      kind: "queried",
      etag: headerOf(response, "ETag"),
      headers: queryHeadersOf(response),
      content: { type: headerOf(response, "Content-Type") ?? "", body: bodyOf(response) },
    };
    return { response: { kind: "query", part: answer } };
  } catch (error) {
    const place = { kind: "query", operations: 1, index: 0 } as const;
    return failed("query", indexed(toServiceError(error), place), context, request);
  }
}

/** Bypasses `encode`, whose header lists were a tenth of all that a transaction allocated. */
function success({ operation, request }: Change, stored: StoredEntity): BatchResponsePart {
  const { contentId } = request.part;
  if (stored.record === undefined) return { kind: "deleted", contentId };
  if (operation !== insertEntity) {
    return { kind: "written", contentId, etag: recordEtag(stored.record) };
  }
  const { etag, location, preference, content } = describeInserted(stored, request);
  return {
    kind: "inserted",
    contentId,
    preferenceApplied: preference,
    location,
    etag,
    content: content && { type: content.type, body: copyOf(content.body) },
  };
}

function failed(
  kind: Batch["kind"],
  error: ServiceError,
  { clock }: TableContext,
  request: PartRequest,
): BatchOutcome {
  const { code, status, message } = error;
  const isInsert =
    request.verb === "POST" && !overrides(request.verb, request.header("x-http-method"));
  const time = printErrorTime(clock.now());
  const part: BatchResponsePart = {
    kind: "failed",
    contentId: request.part.contentId,
    preferenceApplied: isInsert ? preferenceOf(request) : undefined,
    status,
    code,
    content: {
      type: contentTypeOf(levelForErrors(request)),
      body: tableErrorJson({ code, message, requestId: request.requestId, time }),
    },
  };
  const refusal = { error, verb: request.verb, path: request.path };
  return { refusal, response: kind === "query" ? { kind, part } : { kind, parts: [part] } };
}

function indexed(error: ServiceError, place: BatchPosition): ServiceError {
  const message = batchErrorMessage(error, place);
  return new ServiceError(error.code, {
    message,
    status: error.status,
    cause: error.cause ?? error,
  });
}

function headerOf({ headers }: WireResponse, name: string): string | undefined {
  const at = headers.indexOf(name);
  return at < 0 ? undefined : headers[at + 1];
}

/** The headers with the continuation and with the cost of the query. */
function queryHeadersOf({ headers }: WireResponse): string[] {
  const found: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if (/^x-(?:ms-continuation|rowhouse)-/.test(headers[i]!))
      found.push(headers[i]!, headers[i + 1]!);
  }
  return found;
}

/** A list is copied whole into the batch response. */
function bodyOf({ body }: WireResponse): Uint8Array | string {
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  if (isLent(body)) return copyOf(body);
  throw new Error("An operation in a batch returned no body or a streamed one.");
}
