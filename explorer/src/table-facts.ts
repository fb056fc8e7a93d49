import {
  type IndexDefinition,
  parseIndexKey,
} from "@rowhouse/server/query/indexes/index-definition";
import type { TableSketch } from "@rowhouse/server/query/table-sketch";
import type { Row } from "./entities.ts";
import { readEntities, session, wire } from "./session.ts";

/** The names of all tables; of the session's one table, if its SAS is for one. */
export async function readTables(): Promise<string[]> {
  const only = session.value?.table;
  if (only !== undefined) return [only];
  const names: string[] = [];
  let next: string | undefined;
  do {
    const answer = await wire({ path: "/Tables", query: { NextTableName: next } });
    const { value } = (await answer.json()) as { value: readonly { readonly TableName: string }[] };
    names.push(...value.map(({ TableName }) => TableName));
    next = answer.headers.get("x-ms-continuation-nexttablename") ?? undefined;
  } while (next !== undefined && names.length < TABLES_MAX);
  return names;
}

const TABLES_MAX = 20_000;

export async function createTable(name: string): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  await wire({
    method: "POST",
    path: "/Tables",
    headers,
    body: JSON.stringify({ TableName: name }),
  });
}

export async function deleteTable(name: string): Promise<void> {
  await wire({ method: "DELETE", path: `/Tables('${encodeURIComponent(name)}')` });
}

export async function readSketch(table: string): Promise<TableSketch> {
  const answer = await wire({ path: `/_rowhouse/statistics/${table}` });
  return (await answer.json()) as TableSketch;
}

/** The indexes that the server keeps of a table and queries through. Other sessions than the owner's see none. */
export async function readIndexes(table: string): Promise<IndexDefinition[]> {
  if (session.value?.kind !== "key") return [];
  const answer = await wire({ path: "/_rowhouse/indexes" });
  const { indexes } = (await answer.json()) as { indexes: readonly ShownIndex[] };
  return indexes
    .filter((each) => each.table === table && each.state === "ready")
    .map(({ name, key }) => {
      const { isLocal, parts } = parseIndexKey(key);
      // The server shows every part with its type.
      const typed = parts.map((part) => ({ ...part, type: part.type ?? "Edm.String" }) as const);
      return { name, isLocal, parts: typed };
    });
}

interface ShownIndex {
  readonly name: string;
  readonly table: string;
  readonly key: string;
  readonly state: string;
}

/** An entity with all of its values, and its ETag. */
export async function readEntity(
  table: string,
  { partitionKey, rowKey }: Pick<Row, "partitionKey" | "rowKey">,
): Promise<{ readonly row: Row; readonly etag: string }> {
  const literal = (key: string) => `'${encodeURIComponent(key.replaceAll("'", "''"))}'`;
  const keys = `PartitionKey=${literal(partitionKey)},RowKey=${literal(rowKey)}`;
  const answer = await wire({ path: `/${table}(${keys})` });
  const [row] = await readEntities(answer);
  return { row: row!, etag: answer.headers.get("etag") ?? "" };
}
