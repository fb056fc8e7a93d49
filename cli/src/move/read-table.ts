import type { ShownIndex } from "@rowhouse/server/table/indexes/index-json";
import { type RawEntity, splitList } from "./raw-entity.ts";
import { describeRefusal, type TableConnection } from "./table-endpoint.ts";

/** Where a page begins: the text of the endpoint's own continuation headers. */
export interface Continuation {
  readonly partitionKey: string;
  readonly rowKey: string;
}

export interface Page {
  readonly entities: readonly RawEntity[];
  readonly next: Continuation | undefined;
}

export interface ReadOptions {
  readonly table: string;
  readonly filter?: string | undefined;
  readonly select?: readonly string[];
  readonly top?: number;
  readonly from?: Continuation | undefined;
}

/** Reads one page of a table. @throws Error with the endpoint's refusal */
export async function readPage(connection: TableConnection, options: ReadOptions): Promise<Page> {
  const { table, filter, select, top, from } = options;
  const parts: string[] = [];
  if (filter !== undefined) parts.push(`$filter=${encodeURIComponent(filter)}`);
  if (select !== undefined) parts.push(`$select=${encodeURIComponent(select.join(","))}`);
  if (top !== undefined) parts.push(`$top=${top}`);
  if (from !== undefined) {
    parts.push(`NextPartitionKey=${encodeURIComponent(from.partitionKey)}`);
    if (from.rowKey !== "") parts.push(`NextRowKey=${encodeURIComponent(from.rowKey)}`);
  }
  const answer = await connection.send({
    method: "GET",
    path: `/${table}()`,
    query: parts.join("&"),
    headers: { Accept: "application/json;odata=minimalmetadata" },
  });
  if (answer.status !== 200) {
    throw new Error(`Table ${table} cannot be read: ${describeRefusal(answer)}`);
  }
  const partitionKey = answer.headers.get("x-ms-continuation-nextpartitionkey");
  const rowKey = answer.headers.get("x-ms-continuation-nextrowkey") ?? "";
  return {
    entities: splitList(answer.body),
    next: partitionKey === null ? undefined : { partitionKey, rowKey },
  };
}

/** All pages, in key order; a page may be empty. */
export async function* readPages(
  connection: TableConnection,
  options: ReadOptions,
): AsyncGenerator<Page> {
  let { from } = options;
  for (;;) {
    const page = await readPage(connection, { ...options, from });
    yield page;
    if (page.next === undefined) return;
    from = page.next;
  }
}

async function readTableNames(connection: TableConnection): Promise<string[]> {
  const names: string[] = [];
  let from = "";
  do {
    const answer = await connection.send({
      method: "GET",
      path: "/Tables",
      query: from === "" ? "" : `NextTableName=${encodeURIComponent(from)}`,
      headers: { Accept: "application/json;odata=nometadata" },
    });
    if (answer.status !== 200) {
      throw new Error(`The tables cannot be listed: ${describeRefusal(answer)}`);
    }
    const { value } = JSON.parse(answer.body.toString("utf8")) as {
      readonly value: readonly { readonly TableName: string }[];
    };
    names.push(...value.map(({ TableName }) => TableName));
    from = answer.headers.get("x-ms-continuation-nexttablename") ?? "";
  } while (from !== "");
  return names;
}

/**
 * The names of the tables to move when none are named. Not those that the server keeps as indexes of others: elsewhere a
 * copy would be a table that follows nothing. How to declare them there is said instead.
 */
export async function readTablesToMove(
  connection: TableConnection,
  say: (line: string) => void,
): Promise<string[]> {
  const names = await readTableNames(connection);
  const answer = await connection.send({ method: "GET", path: "/_rowhouse/indexes" });
  // Other services know no such address, and a SAS opens it nowhere.
  if (answer.status !== 200) return names;
  const { indexes } = JSON.parse(answer.body.toString("utf8")) as {
    readonly indexes: readonly ShownIndex[];
  };
  for (const { name, table, key } of indexes) {
    say(
      `${name}: left out, an index that the server keeps; declare it where ${table} goes: rowhouse index create ${name} --table ${table} --key '${key}'`,
    );
  }
  const kept = new Set(indexes.map(({ name }) => name));
  return names.filter((name) => !kept.has(name));
}

/** Creates a table that may exist. @throws Error with the endpoint's refusal */
export async function createTable(connection: TableConnection, table: string): Promise<void> {
  const answer = await connection.send({
    method: "POST",
    path: "/Tables",
    headers: { "Content-Type": "application/json", Accept: "application/json;odata=nometadata" },
    body: Buffer.from(JSON.stringify({ TableName: table })),
  });
  if (answer.status === 201 || answer.status === 204 || answer.status === 409) return;
  throw new Error(`Table ${table} cannot be created: ${describeRefusal(answer)}`);
}

/** A string literal of a filter. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function bothFilters(
  one: string | undefined,
  other: string | undefined,
): string | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return `(${one}) and (${other})`;
}
