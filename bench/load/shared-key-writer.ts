import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import type { Target } from "./request-writer.ts";

export interface SharedKeyRequest {
  /** Names in order, as they are signed; values not percent-encoded. */
  readonly query?: readonly (readonly [name: string, value: string])[];
  readonly contentType?: string;
  readonly ifNoneMatch?: string;
  readonly blobType?: "AppendBlob" | "BlockBlob";
  readonly bodyBytes?: number;
}

/** Writes the heads of requests to queues and blobs, signed with SharedKey as the official clients do. */
export class SharedKeyWriter {
  readonly #target: Target;
  readonly #key: KeyObject;
  readonly #fixedHeaders: string;
  #date = "";
  #dateSecond = 0;
  #count = 0;

  constructor(target: Target) {
    this.#target = target;
    this.#key = createSecretKey(Buffer.from(target.keyBase64, "base64"));
    this.#fixedHeaders =
      `Host: ${target.host}:${target.port}\r\nConnection: keep-alive\r\n` +
      "User-Agent: rowhouse-bench/1\r\nAccept: application/xml\r\nAccept-Encoding: gzip,deflate\r\n";
  }

  /** `path` is below the account and percent-encoded. The body follows unencoded. */
  write(method: string, path: string, request: SharedKeyRequest = {}): string {
    const { blobType, bodyBytes = 0, contentType = "", ifNoneMatch = "", query = [] } = request;
    const { account } = this.#target;
    const fullPath = `/${account}${path}`;
    const signed =
      (blobType === undefined ? "" : `x-ms-blob-type:${blobType}\n`) +
      `x-ms-client-request-id:bench-${this.#count++}\n` +
      `x-ms-date:${this.#currentDate()}\nx-ms-version:${VERSION}\n`;
    const text =
      `${method}\n\n\n${bodyBytes || ""}\n\n${contentType}\n\n\n\n${ifNoneMatch}\n\n\n` +
      `${signed}/${account}${fullPath}${query.map(([name, value]) => `\n${name}:${value}`).join("")}`;
    const signature = createHmac("sha256", this.#key).update(text).digest("base64");
    return (
      `${method} ${fullPath}${queryString(query)} HTTP/1.1\r\n${this.#fixedHeaders}` +
      signed.replaceAll("\n", "\r\n") +
      (contentType === "" ? "" : `Content-Type: ${contentType}\r\n`) +
      (ifNoneMatch === "" ? "" : `If-None-Match: ${ifNoneMatch}\r\n`) +
      (method === "GET" || method === "DELETE" ? "" : `Content-Length: ${bodyBytes}\r\n`) +
      `Authorization: SharedKey ${account}:${signature}\r\n\r\n`
    );
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

/** The headers that the official clients send. */
const VERSION = "2026-04-06";

function queryString(query: NonNullable<SharedKeyRequest["query"]>): string {
  if (query.length === 0) return "";
  return `?${query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
}
