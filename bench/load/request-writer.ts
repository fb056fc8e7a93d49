import { createHmac, createSecretKey, type KeyObject } from "node:crypto";

export type ServiceName = "table" | "queue" | "blob";

/** Where requests are sent, and with which credential. */
export interface Target {
  readonly service: ServiceName;
  readonly host: string;
  readonly port: number;
  readonly account: string;
  readonly keyBase64: string;
  /** A SAS token without `?`; requests that carry it are not signed. */
  readonly sas?: string | undefined;
}

/** Writes requests to tables as plain text, header for header like the official JavaScript client. */
export class RequestWriter {
  /** The form that batches use in the URLs of their parts. */
  readonly baseUrl: string;
  readonly #target: Target;
  readonly #key: KeyObject;
  readonly #fixedHeaders: string;
  #date = "";
  #dateSecond = 0;
  #count = 0;

  constructor(target: Target) {
    this.baseUrl = `http://${target.host}:${target.port}/${target.account}`;
    this.#target = target;
    this.#key = createSecretKey(Buffer.from(target.keyBase64, "base64"));
    this.#fixedHeaders =
      `Host: ${target.host}:${target.port}\r\nConnection: keep-alive\r\nx-ms-version: 2019-02-02\r\n` +
      "DataServiceVersion: 3.0\r\nUser-Agent: rowhouse-bench/1\r\nAccept-Encoding: gzip,deflate\r\n";
  }

  /** `path` is below the account, percent-encoded; `query` starts with `&` or is empty; all ASCII. */
  write(
    method: string,
    path: string,
    options: { query?: string; headers?: string; body?: string } = {},
  ): string {
    const { query = "", headers = ACCEPT, body } = options;
    const fullPath = `/${this.#target.account}${path}`;
    return (
      `${method} ${fullPath}${this.#queryString(query)} HTTP/1.1\r\n${this.#fixedHeaders}` +
      `x-ms-client-request-id: bench-${this.#count++}\r\n${this.#authorization(fullPath)}${headers}` +
      (body === undefined ? "\r\n" : `Content-Length: ${body.length}\r\n\r\n${body}`)
    );
  }

  #queryString(query: string): string {
    const { sas } = this.#target;
    if (sas !== undefined) return `?${sas}${query}`;
    return query === "" ? "" : `?${query.slice(1)}`;
  }

  #authorization(fullPath: string): string {
    const date = this.#currentDate();
    const { account, sas } = this.#target;
    if (sas !== undefined) return `x-ms-date: ${date}\r\n`;
    const text = `${date}\n/${account}${fullPath}`;
    const signature = createHmac("sha256", this.#key).update(text).digest("base64");
    return `x-ms-date: ${date}\r\nAuthorization: SharedKeyLite ${account}:${signature}\r\n`;
  }

  #currentDate(): string {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#dateSecond) {
      this.#dateSecond = second;
      this.#date = new Date(second * 1000).toUTCString();
    }
    return this.#date;
  }
}

export const ACCEPT = "Accept: application/json;odata=minimalmetadata\r\n";
export const ACCEPT_AND_CONTENT = `${ACCEPT}Content-Type: application/json\r\n`;
export const PREFER_NO_CONTENT = "Prefer: return-no-content\r\n";
