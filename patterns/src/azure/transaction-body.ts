import { RestError } from "@azure/data-tables";
import type { Properties } from "../ports/edm.ts";
import type { Mutation } from "../ports/tables.ts";
import type { Answer } from "./table-answer.ts";

const METHODS = {
  insert: "POST",
  insertOrReplace: "PUT",
  replace: "PUT",
  insertOrMerge: "PATCH",
  merge: "PATCH",
  delete: "DELETE",
} as const;

export function transactionBody(
  serviceUrl: string,
  table: string,
  mutations: readonly Mutation[],
  id: string,
): string {
  const [endpoint = ""] = serviceUrl.split("?");
  const tableUrl = `${endpoint.replace(/\/$/, "")}/${table}`;
  const parts = mutations.map((mutation) => {
    const { partitionKey, rowKey } = mutation;
    const url =
      mutation.kind === "insert"
        ? tableUrl
        : `${tableUrl}(PartitionKey='${keyInUrl(partitionKey)}',RowKey='${keyInUrl(rowKey)}')`;
    const lines = [
      `--changeset_${id}`,
      "Content-Type: application/http",
      "Content-Transfer-Encoding: binary",
      "",
      `${METHODS[mutation.kind]} ${url} HTTP/1.1`,
      "Accept: application/json;odata=minimalmetadata",
      "DataServiceVersion: 3.0",
      ...("ifMatch" in mutation ? [`If-Match: ${mutation.ifMatch}`] : []),
    ];
    if (mutation.kind === "delete") return [...lines, "", ""].join("\r\n");
    const body = JSON.stringify({
      PartitionKey: partitionKey,
      RowKey: rowKey,
      ...toWire(mutation.properties),
    });
    return [...lines, "Content-Type: application/json", "Prefer: return-no-content", "", body].join(
      "\r\n",
    );
  });
  return [
    `--batch_${id}`,
    `Content-Type: multipart/mixed; boundary=changeset_${id}`,
    "",
    ...parts,
    `--changeset_${id}--`,
    `--batch_${id}--`,
    "",
  ].join("\r\n");
}

/**
 * The ETags that a transaction's operations are answered with, in their order.
 * @throws RestError what the one that failed is answered with.
 */
export function etagsIn(answer: Answer): (string | undefined)[] {
  // What stands behind the last boundary is no part: an answer that ends early has one less.
  const parts = (answer.bodyAsText ?? "").split(/^--changesetresponse_/m).slice(1, -1);
  return parts.map((part) => {
    const statusCode = Number(/^HTTP\/1\.1 (\d+)/m.exec(part)?.[1] ?? 0);
    if (statusCode < 300) return /^ETag: (.*)/im.exec(part)?.[1];
    const { code, message } = errorIn(part);
    throw new RestError(message?.value ?? "The transaction failed.", {
      statusCode,
      ...(code !== undefined && { code }),
      request: answer.request,
      response: answer,
    });
  });
}

function errorIn(text: string): { code?: string; message?: { value?: string } } {
  try {
    const { "odata.error": error = {} } = JSON.parse(/\{.*\}/.exec(text)?.[0] ?? "");
    return error;
  } catch {
    return {};
  }
}

function keyInUrl(key: string): string {
  return encodeURIComponent(key.replaceAll("'", "''"));
}

function toWire(properties: Properties): Record<string, unknown> {
  const wire: Record<string, unknown> = {};
  for (const [name, { type, value }] of Object.entries(properties)) {
    wire[name] = value;
    if (type !== "String" && type !== "Boolean" && type !== "Int32")
      wire[`${name}@odata.type`] = `Edm.${type}`;
  }
  return wire;
}
