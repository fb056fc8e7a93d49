import { randomUUID } from "node:crypto";
import { entityPath } from "@rowhouse/protocol/entity-url";
import {
  type Failure,
  type KeyedChange,
  type Refused,
  type WriteMode,
  writeInTransactions,
} from "@rowhouse/protocol/entity-writes";
import { describeRefusal, type TableAnswer, type TableConnection } from "./table-endpoint.ts";

export interface Change extends KeyedChange {
  /** For deletes: the ETag the entity must still have. */
  readonly etag?: string | undefined;
}

const TRANSACTIONS_AT_ONCE = 8;

/**
 * Writes changes as entity group transactions, a few at a time. An entity that the endpoint refuses is reported and
 * left out; all others are written.
 * @throws Error if the endpoint cannot be reached, refuses the caller, or has no such table
 */
export function writeChanges<Written extends Change>(
  connection: TableConnection,
  table: string,
  mode: WriteMode,
  changes: readonly Written[],
): Promise<Refused<Written>[]> {
  return writeInTransactions(changes, TRANSACTIONS_AT_ONCE, async (group) => {
    const failure =
      group.length === 1
        ? await writeAlone(connection, table, mode, group[0]!)
        : await writeTogether(connection, table, mode, group);
    if (failure === undefined) return undefined;
    if (failure.status === 401 || failure.status === 403 || /TableNotFound/.test(failure.reason)) {
      throw new Error(`Table ${table} cannot be written: ${failure.reason}`);
    }
    return failure;
  });
}

async function writeAlone(
  connection: TableConnection,
  table: string,
  mode: WriteMode,
  change: Change,
): Promise<Failure | undefined> {
  const { method, headers, path } = operationOf(table, mode, change);
  const answer = await connection.send({
    method: method === "MERGE" ? "POST" : method,
    path: `/${path}`,
    headers: {
      ...headers,
      ...(method === "MERGE" && { "X-HTTP-Method": "MERGE" }),
      Accept: JSON_TYPE,
    },
    ...(change.entity && { body: change.entity }),
  });
  if (isWritten(answer.status, change)) return undefined;
  return { index: 0, status: answer.status, reason: describeRefusal(answer) };
}

async function writeTogether(
  connection: TableConnection,
  table: string,
  mode: WriteMode,
  changes: readonly Change[],
): Promise<Failure | undefined> {
  const batch = `batch_${randomUUID()}`;
  const changeset = `changeset_${randomUUID()}`;
  const parts: Uint8Array[] = [
    Buffer.from(`--${batch}\r\nContent-Type: multipart/mixed; boundary=${changeset}\r\n\r\n`),
  ];
  for (const change of changes) {
    const { method, headers, path } = operationOf(table, mode, change);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `${method} ${connection.endpoint.url}/${path} HTTP/1.1\r\nAccept: ${JSON_TYPE}\r\n${lines.join("")}`;
    parts.push(
      Buffer.from(
        `--${changeset}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n${head}\r\n`,
      ),
      change.entity ?? NOTHING,
      LINE,
    );
  }
  parts.push(Buffer.from(`--${changeset}--\r\n--${batch}--\r\n`));
  const answer = await connection.send({
    method: "POST",
    path: "/$batch",
    headers: { "Content-Type": `multipart/mixed; boundary=${batch}`, Accept: JSON_TYPE },
    body: Buffer.concat(parts),
  });
  return failureIn(answer, changes.length);
}

/** What is wrong with a transaction, and which of its operations, by the index in front of the text. */
function failureIn(answer: TableAnswer, operations: number): Failure | undefined {
  if (answer.status !== 202) {
    const reason = describeRefusal(answer);
    const isOfCaller = [401, 403, 404].includes(answer.status);
    if (isOfCaller) return { index: 0, status: answer.status, reason };
    throw new Error(`The endpoint refused a transaction: ${reason}`);
  }
  const text = answer.body.toString("utf8");
  const status = Number(/HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
  if (status >= 200 && status < 300) return undefined;
  const body = Buffer.from(text.slice(text.indexOf("HTTP/1.1")));
  const reason = describeRefusal({ status, headers: answer.headers, body });
  const index = Number(/"value":"(\d+):/.exec(text)?.[1] ?? Number.NaN);
  if (!(index >= 0 && index < operations)) {
    throw new Error(`The endpoint refused a transaction: ${reason}`);
  }
  return { index, status, reason };
}

function isWritten(status: number, { entity }: Change): boolean {
  return (status >= 200 && status < 300) || (entity === undefined && status === 404);
}

interface OperationHead {
  readonly method: "POST" | "PUT" | "MERGE" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  readonly path: string;
}

function operationOf(table: string, mode: WriteMode, change: Change): OperationHead {
  const path = entityPath(table, change.partitionKey, change.rowKey);
  if (change.entity === undefined) {
    return { method: "DELETE", headers: { "If-Match": change.etag ?? "*" }, path };
  }
  const headers = { "Content-Type": "application/json" };
  switch (mode) {
    case "insert":
      return { method: "POST", headers: { ...headers, Prefer: "return-no-content" }, path: table };
    case "merge":
      return { method: "MERGE", headers, path };
    case "replace":
      return { method: "PUT", headers, path };
  }
}

const JSON_TYPE = "application/json;odata=nometadata";
const NOTHING = new Uint8Array(0);
const LINE = Buffer.from("\r\n");
