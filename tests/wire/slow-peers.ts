import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { KEY, StorageWire } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";

const { name } = DEVELOPMENT_ACCOUNT;

const SLOW_KINDS = ["readers", "writers", "halves"] as const;

/** Opens so many slow connections of each of three kinds, or of some of them. */
export function openSlowPeers(
  table: string,
  blob: string,
  each: number,
  kinds: readonly string[] = SLOW_KINDS,
): Socket[] {
  const tables = new TableWire({ url: `${table}/${name}`, account: name, key: KEY });
  const blobs = new StorageWire(blob, "application/octet-stream");
  const sockets: Socket[] = [];
  const open = (url: string, from: string, begin: (socket: Socket) => void) => {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), localAddress: from });
    socket.on("error", () => {});
    socket.on("connect", () => begin(socket));
    sockets.push(socket);
  };
  const upload = blobs.bytes("PUT", "/open/slow", {
    body: Buffer.alloc(4 << 20),
    headers: { "x-ms-blob-type": "BlockBlob" },
  });
  const headEnd = upload.indexOf("\r\n\r\n") + 4;
  const batch = tables.bytes("POST", "/$batch", transaction(0));
  const [half, insert] = [
    batch.subarray(0, batch.length / 2),
    tables.bytes("POST", "/Other", {
      body: { PartitionKey: "p", RowKey: "s", Text: "x".repeat(30_000) },
    }),
  ];
  for (let i = 0; i < each; i++) {
    // Readers, who read nothing.
    if (kinds.includes("readers"))
      open(blob, "127.0.1.1", (socket) => {
        socket.pause();
        socket.write(`GET /${name}/open/large HTTP/1.1\r\nHost: h\r\n\r\n`);
      });
    // Writers, at 200 bytes a second.
    if (kinds.includes("writers"))
      open(blob, "127.0.1.2", (socket) => {
        socket.write(upload.subarray(0, headEnd));
        let at = headEnd;
        const timer = setInterval(() => {
          socket.write(upload.subarray(at, at + 200));
          at += 200;
        }, 1000);
        socket.on("close", () => clearInterval(timer));
      });
    // Half of a body, of a transaction or of an insertion in turn.
    if (kinds.includes("halves"))
      open(table, "127.0.1.3", (socket) => {
        socket.write(i % 2 === 0 ? half : insert.subarray(0, -1));
      });
  }
  return sockets;
}

/** A hundred entities of 4 KB. */
export function transaction(i: number) {
  const parts = Array.from({ length: 100 }, (_, row) => {
    const entity = { PartitionKey: "t", RowKey: String(row), Text: `${i}`.padEnd(4000, "x") };
    const body = JSON.stringify(entity);
    const key = `(PartitionKey='t',RowKey='${row}')`;
    return `--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPUT http://h/${name}/Other${key} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}\r\n`;
  });
  const body = `--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n${parts.join("")}--c--\r\n--b--\r\n`;
  return { body, headers: { "Content-Type": "multipart/mixed; boundary=b" } };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , table = "", blob = "", each = "", kinds] = process.argv;
  const sockets = openSlowPeers(table, blob, Number(each), kinds?.split(","));
  const waiting = setInterval(() => {
    if (sockets.some((socket) => socket.connecting)) return;
    clearInterval(waiting);
    process.send?.("open");
  }, 100);
}
