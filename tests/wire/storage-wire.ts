import { createHmac } from "node:crypto";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import type { HttpAnswer } from "./http-answer.ts";
import { KeptConnection } from "./http-connection.ts";

export interface StorageCall {
  readonly body?: string | Uint8Array | undefined;
  /** In addition to the usual headers, or replacing them; undefined omits one. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Query text of a token that replaces the signature. */
  readonly sas?: string;
  /** The order of `x-ms-` headers in the signed text, for tests of that order. */
  readonly order?: (a: string, b: string) => number;
  /** Milliseconds since 1970; default: now. */
  readonly signedAt?: number;
  /** Base64; default: the development account's. */
  readonly key?: string;
}

const ACCOUNT = DEVELOPMENT_ACCOUNT.name;
export const KEY = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
export const VERSION = "2026-04-06";

/** A raw client of queues or blobs: sends exactly the given requests, signed, over one connection. */
export class StorageWire {
  readonly #url: URL;
  readonly #contentType: string;
  readonly #connection: KeptConnection;

  /**
   * @param url of the service: `http://127.0.0.1:10001`
   * @param contentType default content type of bodies
   */
  constructor(url: string, contentType: string) {
    this.#url = new URL(url);
    this.#contentType = contentType;
    this.#connection = new KeptConnection(this.#url);
  }

  /** `path` starts below the account and may contain a query; both are sent unchanged. */
  async send(method: string, path: string, call: StorageCall = {}): Promise<HttpAnswer> {
    return this.sendBytes(method, this.bytes(method, path, call));
  }

  async sendBytes(method: string, bytes: Uint8Array): Promise<HttpAnswer> {
    const connection = await this.#connection.open();
    connection.write(bytes);
    const answer = await connection.answer({ head: method === "HEAD" });
    if (answer.header("connection") === "close") this.close();
    return answer;
  }

  /** The bytes of the request. */
  bytes(method: string, path: string, call: StorageCall): Buffer {
    const body = call.body === undefined ? undefined : Buffer.from(call.body);
    const hasKey = call.sas === undefined;
    const headers: Record<string, string | undefined> = {
      Host: this.#url.host,
      "x-ms-version": hasKey ? VERSION : undefined,
      "x-ms-date": hasKey ? new Date(call.signedAt ?? Date.now()).toUTCString() : undefined,
      "Content-Type": body ? this.#contentType : undefined,
      "Content-Length": body || method === "PUT" ? String(body?.length ?? 0) : undefined,
      ...call.headers,
    };
    let target = `/${ACCOUNT}${path}`;
    if (call.sas !== undefined && call.sas !== "") {
      target += `${target.includes("?") ? "&" : "?"}${call.sas}`;
    }
    if (hasKey && !("Authorization" in headers)) {
      const signature = sign(call.key ?? KEY, stringToSign(method, target, headers, call.order));
      headers.Authorization = `SharedKey ${ACCOUNT}:${signature}`;
    }
    const lines = Object.entries(headers)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`;
    return Buffer.concat([Buffer.from(head, "latin1"), body ?? Buffer.alloc(0)]);
  }

  close(): void {
    this.#connection.close();
  }
}

/** Base64 of HMAC-SHA256. */
export function sign(key: string, text: string): string {
  return createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");
}

/** The text that SharedKey signs, built plainly. */
export function stringToSign(
  method: string,
  target: string,
  headers: Readonly<Record<string, string | undefined>>,
  order: (a: string, b: string) => number = (a, b) => (a < b ? -1 : 1),
): string {
  const sent = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name.toLowerCase(), value.trim()] as const],
  );
  const value = (name: string) => sent.find(([each]) => each === name)?.[1] ?? "";
  const length = value("content-length");
  const extensions = sent
    .filter(([name]) => name.startsWith("x-ms-"))
    .sort(([a], [b]) => order(a, b))
    .map(([name, text]) => `${name}:${text}\n`);
  const [path = "", query = ""] = target.split("?");
  const parameters = query
    .split("&")
    .filter(Boolean)
    .map((pair) => pair.split("=").map(decodeURIComponent))
    .map(([name = "", ...text]) => `\n${name.toLowerCase()}:${text.join("=")}`)
    .sort();
  return [
    method,
    value("content-encoding"),
    value("content-language"),
    length === "0" ? "" : length,
    value("content-md5"),
    value("content-type"),
    value("x-ms-date") ? "" : value("date"),
    value("if-modified-since"),
    value("if-match"),
    value("if-none-match"),
    value("if-unmodified-since"),
    value("range"),
    `${extensions.join("")}/${ACCOUNT}${path}${parameters.join("")}`,
  ].join("\n");
}
