import {
  type EdmValue,
  type Mutation,
  PortError,
  type Properties,
  printFilter,
  type StoredEntity,
  type TablesPort,
} from "@rowhouse/patterns";
import {
  type ChangesetOperation,
  changesetType,
  printChangeset,
  readChangesetAnswer,
} from "@rowhouse/protocol/batch-request";
import { entityPath } from "@rowhouse/protocol/entity-url";
import { type Cell, parseEntities, type Row } from "../entities.ts";
import { toJson } from "../entity-json.ts";
import { ServerError, type WireRequest } from "../session.ts";

const SCRATCH = "playgroundScratch";

/** Whether a visit of the playground made the table. */
export function isScratch(table: string): boolean {
  return new RegExp(`^${SCRATCH}[0-9a-f]{8}`).test(table);
}

/** What the names of a visit's tables begin with. */
export function newScratchPrefix(): string {
  return SCRATCH + randomHex(4);
}

export interface ScratchOptions {
  readonly prefix: string;
  /** The address of the account, as operations inside a transaction name it. */
  readonly base: string;
  readonly wire: (request: WireRequest) => Promise<Response>;
  /** How far the clock of the playground is ahead of the server's: what the library takes for the server's is, too. */
  readonly aheadMs: () => number;
}

/**
 * The port by which the pattern library reaches the server through the explorer's gateway. Every table has the prefix on
 * the wire and not above it, so no pattern can touch a table of anybody else.
 */
export function scratchTables({ prefix, base, wire, aheadMs }: ScratchOptions): TablesPort {
  const send = async (request: WireRequest): Promise<Response> => {
    try {
      return await wire(request);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      throw new PortError(error.message, { status: error.status, code: error.code });
    }
  };
  const entitiesIn = async (answer: Response): Promise<StoredEntity[]> => {
    const servedAtMs = Date.parse(answer.headers.get("date") ?? "") + aheadMs();
    return parseEntities(await answer.text()).map((row) => stored(row, servedAtMs));
  };
  return {
    profile: {
      ...{ name: "rowhouse", ordered: true },
      ...{ rowKeyLengthMax: 512, transactionBytesMax: 4 * 1024 * 1024 },
    },

    async get(table, { partitionKey, rowKey }, { select } = {}) {
      const path = `/${entityPath(prefix + table, partitionKey, rowKey)}`;
      try {
        const [found] = await entitiesIn(
          await send({ path, query: { $select: selected(select) } }),
        );
        return found;
      } catch (error) {
        if (error instanceof PortError && error.code === "ResourceNotFound") return undefined;
        throw error;
      }
    },

    async query(table, { filter, select, top, continuation }) {
      const query = {
        ...{ $filter: printFilter(filter), $select: selected(select) },
        ...(top !== undefined && { $top: String(top) }),
        NextPartitionKey: continuation?.partitionKey,
        NextRowKey: continuation?.rowKey,
      };
      const answer = await send({ path: `/${prefix}${table}()`, query });
      const partitionKey = answer.headers.get("x-ms-continuation-nextpartitionkey");
      const rowKey = answer.headers.get("x-ms-continuation-nextrowkey");
      const entities = await entitiesIn(answer);
      if (!partitionKey) return { entities };
      return { entities, continuation: { partitionKey, ...(rowKey && { rowKey }) } };
    },

    async commit(table, mutations, { timeoutS } = {}) {
      const id = randomHex(16);
      const operations = mutations.map((one) => operationOf(one, base, prefix + table));
      const answer = await send({
        ...{ method: "POST", path: "/$batch", body: printChangeset(operations, id) },
        query: { timeout: timeoutS === undefined ? undefined : String(timeoutS) },
        headers: { "Content-Type": changesetType(id) },
      });
      const done = readChangesetAnswer(await answer.text(), mutations.length);
      if (done.kind === "done") return [...done.etags];
      const { status, code, message, index = 0 } = done;
      throw new PortError(message, { status, code, index });
    },

    createTable(table) {
      const headers = { "Content-Type": "application/json", Prefer: "return-no-content" };
      const body = JSON.stringify({ TableName: prefix + table });
      return unless("TableAlreadyExists", () =>
        send({ method: "POST", path: "/Tables", headers, body }),
      );
    },

    deleteTable(table) {
      return unless("ResourceNotFound", () =>
        send({ method: "DELETE", path: `/Tables('${prefix}${table}')` }),
      );
    },

    async listTables({ from = "", to = "{", continuation }) {
      // "{" comes after every letter.
      const $filter = `TableName ge '${prefix}${from}' and TableName lt '${prefix}${to}'`;
      const query = { $filter, NextTableName: continuation && prefix + continuation };
      const answer = await send({ path: "/Tables", query });
      const { value } = (await answer.json()) as {
        readonly value: readonly { readonly TableName: string }[];
      };
      const names = value.map(({ TableName }) => TableName.slice(prefix.length));
      const next = answer.headers.get("x-ms-continuation-nexttablename");
      return { names, ...(next && { continuation: next.slice(prefix.length) }) };
    },
  };
}

/** False when the request is refused with this code. */
async function unless(code: string, request: () => Promise<unknown>): Promise<boolean> {
  try {
    await request();
    return true;
  } catch (error) {
    if (error instanceof PortError && error.code === code) return false;
    throw error;
  }
}

/** The ETag is that of the Timestamp, so it is always read. */
function selected(select: readonly string[] | undefined): string | undefined {
  return select && ["PartitionKey", "RowKey", "Timestamp", ...select].join(",");
}

function stored({ partitionKey, rowKey, cells }: Row, servedAtMs: number): StoredEntity {
  const properties: Record<string, EdmValue> = {};
  for (const [name, cell] of cells) if (name !== "Timestamp") properties[name] = edmValue(cell);
  const timestamp = cells.get("Timestamp")?.text ?? "";
  const etag = `W/"datetime'${encodeURIComponent(timestamp)}'"`;
  return { partitionKey, rowKey, etag, timestamp, servedAtMs, properties };
}

function edmValue({ type: edm, text }: Cell): EdmValue {
  const type = edm.slice("Edm.".length) as EdmValue["type"];
  if (type === "Boolean") return { type, value: text === "true" };
  const isNumber = type === "Int32" || (type === "Double" && Number.isFinite(Number(text)));
  return { type, value: isNumber ? Number(text) : text };
}

function rowOf(partitionKey: string, rowKey: string, properties: Properties): Row {
  const cells = Object.entries(properties).map(([name, value]): [string, Cell] => {
    return [name, { type: `Edm.${value.type}`, text: textOf(value) }];
  });
  return { partitionKey, rowKey, cells: new Map(cells) };
}

/** A whole Double keeps its point: without one it would be stored as an Int32. */
function textOf({ type, value }: EdmValue): string {
  if (type !== "Double") return String(value);
  return (Object.is(value, -0) ? "-0" : String(value)).replace(/^-?\d+$/, "$&.0");
}

function operationOf(mutation: Mutation, base: string, table: string): ChangesetOperation {
  const { kind, partitionKey, rowKey } = mutation;
  const url = `${base}/${entityPath(table, partitionKey, rowKey)}`;
  if (kind === "delete") return { method: "DELETE", url, ifMatch: mutation.ifMatch };
  const body = toJson(rowOf(partitionKey, rowKey, mutation.properties));
  if (kind === "insert") return { method: "POST", url: `${base}/${table}`, body };
  const method = kind === "replace" || kind === "insertOrReplace" ? "PUT" : "MERGE";
  const condition = "ifMatch" in mutation && { ifMatch: mutation.ifMatch };
  return { method, url, body, ...condition };
}

/** `crypto.randomUUID` is only where the page came over TLS or from this machine. */
function randomHex(length: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
