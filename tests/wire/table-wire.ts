import { createHmac } from "node:crypto";
import type { HttpAnswer } from "./http-answer.ts";
import { KeptConnection } from "./http-connection.ts";

/** A table endpoint and one account's key to it. */
export interface TableTarget {
  /** Of the account: `http://127.0.0.1:10002/devstoreaccount1`, no final slash. */
  readonly url: string;
  readonly account: string;
  /** Base64. */
  readonly key: string;
}

/** The credentials of a request. */
export type Credentials =
  | { readonly kind: "shared-key-lite" | "shared-key"; readonly key?: string }
  | { readonly kind: "bearer"; readonly token: string }
  /** A shared access signature as query text. */
  | { readonly kind: "sas"; readonly token: string }
  | { readonly kind: "none" };

export interface Call {
  /** Objects are sent as JSON. */
  readonly body?: string | Uint8Array | object | undefined;
  /** In addition to the usual headers, or replacing them; undefined omits one. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Default: a shared key. */
  readonly as?: Credentials;
}

/** A raw client: sends exactly the given requests, signed, over one connection. */
export class TableWire {
  readonly #target: TableTarget;
  /** Of the account. */
  readonly url: URL;
  readonly #connection: KeptConnection;

  /** @param ca the certificate to trust, for https */
  constructor(target: TableTarget, ca?: string) {
    this.#target = target;
    this.url = new URL(target.url);
    this.#connection = new KeptConnection(this.url, ca);
  }

  /** `path` starts below the account and may contain a query; both are sent unchanged. */
  async send(method: string, path: string, call: Call = {}): Promise<HttpAnswer> {
    const bytes = this.bytes(method, path, call);
    const connection = await this.#connection.open();
    connection.write(bytes);
    const answer = await connection.answer({ head: method === "HEAD" });
    if (answer.header("connection") === "close") this.close();
    return answer;
  }

  /** Sends and requests XML, as for the settings of tables and of the service. */
  sendXml(method: string, path: string, body?: string): Promise<HttpAnswer> {
    const headers = { Accept: "application/xml", "Content-Type": "application/xml" };
    return this.send(method, path, { body, headers });
  }

  /** Sends requests without waiting for answers, then reads the answers in turn. */
  async pipeline(requests: readonly Uint8Array[]): Promise<HttpAnswer[]> {
    const connection = await this.#connection.open();
    const answers: HttpAnswer[] = [];
    connection.write(Buffer.concat(requests));
    for (const _ of requests) answers.push(await connection.answer());
    return answers;
  }

  /** The bytes of the request. */
  bytes(method: string, path: string, call: Call = {}): Buffer {
    const { as = { kind: "shared-key-lite" } } = call;
    const body = bodyOf(call.body);
    const headers: Record<string, string | undefined> = {
      Host: this.url.host,
      "x-ms-version": as.kind === "sas" ? undefined : "2019-02-02",
      "x-ms-date": as.kind === "sas" ? undefined : new Date().toUTCString(),
      DataServiceVersion: "3.0",
      Accept: "application/json;odata=minimalmetadata",
      "Content-Type": body ? "application/json" : undefined,
      "Content-Length": body ? String(body.length) : undefined,
      ...call.headers,
    };
    let target = this.url.pathname.replace(/\/$/, "") + path;
    if (as.kind === "sas") target += `${target.includes("?") ? "&" : "?"}${as.token}`;
    else headers.Authorization ??= this.#authorization(as, method, target, headers);
    const lines = Object.entries(headers)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`;
    return Buffer.concat([Buffer.from(head, "latin1"), body ?? Buffer.alloc(0)]);
  }

  close(): void {
    this.#connection.close();
  }

  #authorization(
    as: Credentials,
    method: string,
    target: string,
    headers: Readonly<Record<string, string | undefined>>,
  ): string | undefined {
    if (as.kind === "none" || as.kind === "sas") return undefined;
    if (as.kind === "bearer") return `Bearer ${as.token}`;
    const [path = "", query = ""] = target.split("?");
    const comp = /(?:^|&)comp=([^&]*)/.exec(query);
    const date = headers["x-ms-date"] ?? headers.Date ?? "";
    const resource = `/${this.#target.account}${path}${comp ? `?comp=${comp[1]}` : ""}`;
    const text =
      as.kind === "shared-key-lite"
        ? [date, resource]
        : [method, headers["Content-MD5"] ?? "", headers["Content-Type"] ?? "", date, resource];
    const scheme = as.kind === "shared-key-lite" ? "SharedKeyLite" : "SharedKey";
    const signature = hmac(as.key ?? this.#target.key, text.join("\n"));
    return `${scheme} ${this.#target.account}:${signature}`;
  }
}

/** Base64 of HMAC-SHA256. */
export function hmac(key: string, text: string): string {
  return createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");
}

function bodyOf(body: Call["body"]): Buffer | undefined {
  if (body === undefined) return undefined;
  if (body instanceof Uint8Array) return Buffer.from(body);
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body), "utf8");
}
