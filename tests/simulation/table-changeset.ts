import { type Answer, requestOf, type Write } from "./table-client.ts";

/** A `$batch` request with one change set. */
export function changesetOf(table: string, writes: readonly Write[]) {
  const parts = writes.map((write) => {
    const { method, path, headers, body } = requestOf(table, write);
    const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    return (
      "--c\r\nContent-Type: application/http\r\n\r\n" +
      `${method} ${path} HTTP/1.1\r\n${head.join("")}\r\n${body ? JSON.stringify(body) : ""}\r\n`
    );
  });
  return {
    headers: { "Content-Type": "multipart/mixed; boundary=b" },
    body: `--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n${parts.join("")}--c--\r\n--b--\r\n`,
  };
}

export interface Part {
  readonly etag: string | undefined;
  readonly code: string | undefined;
  readonly message: string;
}

/** The answers inside the batch answer. */
export function partsOf({ body }: Answer): Part[] {
  return body
    .split(/--changesetresponse_/)
    .filter((piece) => piece.includes("\r\nHTTP/1.1 "))
    .map((piece) => {
      const [, code, message = ""] =
        /"code":"(\w+)","message":\{"lang":"en-US","value":"((?:[^"\\]|\\.)*)"/.exec(piece) ?? [];
      return { etag: /\r\nETag: (.*)\r\n/.exec(piece)?.[1], code, message };
    });
}
