import {
  type Dataset,
  entityJson,
  PARTITION_ENTITIES,
  partitionKey,
  propertiesJson,
  RARE_BUCKET,
  rowKey,
  smallEntityJson,
} from "./dataset.ts";
import {
  ACCEPT,
  ACCEPT_AND_CONTENT,
  PREFER_NO_CONTENT,
  type RequestWriter,
} from "./request-writer.ts";
import type { ResponseReader } from "./response-reader.ts";
import type { Client, InsertForm } from "./workload.ts";

export const TRANSACTION_ENTITIES = 100;

/** The filter that one entity in a hundred matches. */
export const RARE_IN_TABLE = `Bucket eq ${RARE_BUCKET}`;

export function rareInPartition(index: number): string {
  return `PartitionKey eq '${partitionKey(index)}' and ${RARE_IN_TABLE}`;
}

/** The requests that all workloads consist of, against one table. */
export class Requests {
  readonly #writer: RequestWriter;
  readonly #dataset: Dataset;

  constructor(writer: RequestWriter, dataset: Dataset) {
    this.#writer = writer;
    this.#dataset = dataset;
  }

  get(index: number): string {
    return this.#writer.write("GET", this.path(index));
  }

  /** `rows` neighboring entities from a random one on, whole or the `selected` properties. */
  range(client: Client, rows: number, selected?: string): string {
    const first = client.random(this.#dataset.entities);
    const start = Math.min(first % PARTITION_ENTITIES, PARTITION_ENTITIES - rows);
    const row = (index: number) => rowKey(index, this.#dataset);
    const filter =
      `PartitionKey eq '${partitionKey(first)}' and ` +
      `RowKey ge '${row(start)}' and RowKey le '${row(start + rows - 1)}'`;
    return this.query(filter, `&$top=${rows}${selected ? `&$select=${selected}` : ""}`);
  }

  /** The first page of all entities. */
  table(): string {
    return this.#writer.write("GET", `/${this.#dataset.table}()`);
  }

  query(filter: string, rest = ""): string {
    const query = `&$filter=${encodeURIComponent(filter)}${rest}`;
    return this.#writer.write("GET", `/${this.#dataset.table}()`, { query });
  }

  /** A new key next to a random existing one, or behind all of the client's own partition. */
  insert(client: Client, form?: InsertForm): { request: string; path: string } {
    const grows = form === "growing keys";
    const index = grows ? client.index * PARTITION_ENTITIES : client.random(this.#dataset.entities);
    const row = grows ? client.nextRow() : rowKey(index) + client.newRowSuffix();
    const request = this.#writer.write("POST", `/${this.#dataset.table}`, {
      headers: ACCEPT_AND_CONTENT + PREFER_NO_CONTENT,
      body: form === "rows of 200 bytes" ? smallEntityJson(index, row) : entityJson(index, row),
    });
    return { request, path: this.path(index, row) };
  }

  /** An upsert, or with `ifMatch` an update. */
  put(index: number, ifMatch?: string): string {
    const condition = ifMatch === undefined ? "" : `If-Match: ${ifMatch}\r\n`;
    return this.#writer.write("PUT", this.path(index), {
      headers: ACCEPT_AND_CONTENT + condition,
      body: `{${propertiesJson(index)}}`,
    });
  }

  merge(client: Client): string {
    return this.#writer.write("PATCH", this.path(client.random(this.#dataset.entities)), {
      headers: ACCEPT_AND_CONTENT,
      body: `{"Salary":${client.random(100_000)},"Active":false}`,
    });
  }

  delete(path: string, ifMatch: string): string {
    return this.#writer.write("DELETE", path, { headers: `${ACCEPT}If-Match: ${ifMatch}\r\n` });
  }

  /** One transaction of inserts. */
  insertAll(count: number, entity: (position: number) => string): string {
    const path = `/${this.#dataset.table}`;
    return this.#batch(count, (i) => part(`POST ${this.#writer.baseUrl}${path}`, entity(i)));
  }

  /** One transaction that upserts `count` neighboring entities. */
  putAll(first: number, count: number): string {
    return this.#batch(count, (i) => {
      const url = this.#writer.baseUrl + this.path(first + i);
      return part(`PUT ${url}`, `{${propertiesJson(first + i)}}`);
    });
  }

  path(index: number, row = rowKey(index)): string {
    return `/${this.#dataset.table}(PartitionKey='${partitionKey(index)}',RowKey='${row}')`;
  }

  #batch(count: number, partOf: (position: number) => string): string {
    let body = "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n";
    for (let i = 0; i < count; i++) body += partOf(i);
    body += "--changeset_c--\r\n--batch_b--\r\n";
    return this.#writer.write("POST", "/$batch", {
      headers: `${ACCEPT}Content-Type: multipart/mixed; boundary=batch_b\r\n`,
      body,
    });
  }
}

function part(methodAndUrl: string, json: string): string {
  return (
    "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
    `${methodAndUrl} HTTP/1.1\r\n${ACCEPT_AND_CONTENT}DataServiceVersion: 3.0\r\n` +
    `${PREFER_NO_CONTENT}Content-Length: ${json.length}\r\n\r\n${json}\r\n`
  );
}

/** A failed transaction is answered with 202 too, but contains only the part of one failure. */
export function wholeTransaction(answer: ResponseReader, count: number): boolean {
  return answer.status === 202 && answer.bodyBytes > count * PART_BYTES_MIN;
}

const PART_BYTES_MIN = 150;
