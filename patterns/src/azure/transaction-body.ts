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
 * The ETags in the answers to a transaction's operations, in their order.
 * @throws RestError with the answer to the operation that failed.
 */
export function etagsIn(answer: Answer): (string | undefined)[] {
  // The text after the last boundary is not a part: an answer that ends early has one part less.
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
