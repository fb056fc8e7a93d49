import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import type { Engine } from "@rowhouse/server/engine/engine";
import type { Handle } from "@rowhouse/server/http/lane-limits";
import { HeaderList, WholeBody } from "@rowhouse/server/http/raw-request";
import { type OpenServices, openServices } from "@rowhouse/server/server";
import type { WireResponse } from "@rowhouse/server/wire/operation";

export interface Keys {
  readonly partitionKey: string;
  readonly rowKey: string;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
  header(name: string): string | undefined;
  /** The error code of a refusal. */
  readonly code: string | undefined;
}

/** The whole Table service without sockets: requests go in, answers come out. */
export class TableClient {
  readonly #services: OpenServices;
  readonly #handle: Handle;

  private constructor(services: OpenServices) {
    this.#services = services;
    this.#handle = services.handles.get("table")!;
  }

  static async open(engine: Engine): Promise<TableClient> {
    const services = await openServices({
      engine,
      accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
      services: ["table"],
      // Every caller is accepted: signing is tested elsewhere, and costs more than the rest.
      bearer: {
        challenge: "",
        allowHttp: true,
        verify: async () => ({ kind: "bearer", role: "contributor", subject: "simulation" }),
      },
    });
    return new TableClient(services);
  }

  /** Also closes the engine. */
  close(): Promise<void> {
    return this.#services.close();
  }

  async send(
    method: string,
    path: string,
    { body = "", headers = {} }: { body?: string | object; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body), "utf8");
    const sent = { ...HEADERS, ...headers };
    const answer = await this.#handle({
      verb: method,
      target: `/devstoreaccount1${path}`,
      headers: new HeaderList(Object.entries(sent).flat()),
      secure: false,
      remoteAddress: "127.0.0.1",
      body: new WholeBody(bytes),
    });
    const text = await textOf(answer.body);
    const header = (name: string) => {
      const at = answer.headers.findIndex((each, i) => i % 2 === 0 && each.toLowerCase() === name);
      return at < 0 ? undefined : answer.headers[at + 1];
    };
    return { status: answer.status, body: text, header, code: header("x-ms-error-code") };
  }
}

const HEADERS = {
  Host: "127.0.0.1:10002",
  Authorization: "Bearer simulation",
  "x-ms-version": "2019-02-02",
  Accept: "application/json;odata=nometadata",
  "Content-Type": "application/json",
};

export function entityPath(table: string, { partitionKey, rowKey }: Keys): string {
  return `/${table}(PartitionKey='${quoted(partitionKey)}',RowKey='${quoted(rowKey)}')`;
}

function quoted(key: string): string {
  return encodeURIComponent(key.replaceAll("'", "''"));
}

/** One write, alone or in a transaction. */
export interface Write extends Keys {
  readonly kind: "insert" | "replace" | "merge" | "delete";
  readonly ifMatch: string | undefined;
  readonly properties: Readonly<Record<string, number | string>>;
}

/** A write as a request: method, path, headers and body. */
export function requestOf(table: string, write: Write) {
  const { kind, ifMatch, properties, partitionKey, rowKey } = write;
  const headers: Record<string, string> = {};
  if (ifMatch !== undefined) headers["If-Match"] = ifMatch;
  if (kind === "delete") return { method: "DELETE", path: entityPath(table, write), headers };
  if (kind === "insert") {
    const body = { PartitionKey: partitionKey, RowKey: rowKey, ...properties };
    return { method: "POST", path: `/${table}`, headers: { Prefer: "return-no-content" }, body };
  }
  const method = kind === "replace" ? "PUT" : "MERGE";
  return { method, path: entityPath(table, write), headers, body: properties };
}

/** A long list is sent in parts. */
async function textOf(body: WireResponse["body"]): Promise<string> {
  if (body === undefined || typeof body === "string") return body ?? "";
  if (body instanceof Uint8Array) return Buffer.from(body).toString("utf8");
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString("utf8");
}
