import { isIP, connect as openSocket } from "node:net";
import { connect as openTls } from "node:tls";
import { type PostgresConfig, type PostgresHost, tlsFor } from "./config.ts";

/** Identifies one of our connections to the server, and proves that it is ours. */
export interface BackendKey {
  readonly processID: number;
  readonly secretKey: number;
}

/**
 * No caller waits for the request: an overdue read is given up a second after it was sent, whatever becomes of it. A
 * server too busy to answer takes longer than that to accept a connection, and would otherwise go on with the read.
 */
const CANCEL_MS_MAX = 5_000;
const SSL_REQUEST = int32s(8, 80_877_103);

/**
 * Asks the server to stop what one of our connections is doing: over a connection of its own, as the protocol
 * requires, under the same TLS as the first. There is no answer, and a failure changes nothing.
 *
 * Not `SELECT pg_cancel_backend(…)`: that needs a free connection when reads are slow, and a pooler's process
 * numbers are its own.
 * Source: "Frontend/Backend Protocol", "Canceling Requests in Progress".
 */
export function requestCancel(config: PostgresConfig, server: PostgresHost, key: BackendKey): void {
  const { host, port } = server;
  const tls = tlsFor(config, server);
  const request = int32s(16, 80_877_102, key.processID, key.secretKey);
  const socket = host.startsWith("/")
    ? openSocket(`${host}/.s.PGSQL.${port}`)
    : openSocket(port, host);
  const timer = setTimeout(() => socket.destroy(), CANCEL_MS_MAX);
  socket.on("error", () => {});
  socket.on("close", () => clearTimeout(timer));
  if (tls === false) {
    socket.end(request);
    return;
  }
  socket.write(SSL_REQUEST);
  socket.once("data", (answer) => {
    // More than this one byte could be an attacker's, to be taken for what arrives encrypted.
    if (answer.toString("latin1") !== "S") {
      socket.destroy();
      return;
    }
    const name = isIP(host) === 0 ? { servername: host } : {};
    const secure = openTls({ ...tls, socket, host, ...name });
    secure.on("error", () => socket.destroy());
    secure.end(request);
  });
}

function int32s(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeInt32BE(value | 0, index * 4);
  return bytes;
}
