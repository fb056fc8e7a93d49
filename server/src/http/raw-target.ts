import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * Request targets with bytes above ASCII: some clients, curl among them, send UTF-8 as it is. RFC 9110 does not
 * allow it, the services do. Behind the lanes such bytes are percent-encoded; those that are not UTF-8 are found
 * when the target is decoded.
 * @param target one character per byte
 */
export function escapeRaw(target: string): string {
  return target.replace(
    /[\u0080-\u00ff]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** What node:http reports of bytes that its parser refused. */
type ParseError = Error & {
  readonly code?: string;
  readonly rawPacket?: Buffer;
  readonly bytesParsed?: number;
};

/**
 * Makes a server read raw targets, which the parser of node:http refuses: the connection begins anew for it, with
 * the bytes from that request on, escaped. A request line of which a part came in an earlier packet is refused, as
 * are all other bytes that are no request.
 * @param ready the event that passes a connection to node:http
 */
export function readRawTargets(http: Server, ready: "connection" | "secureConnection"): void {
  /** The latest response of a connection; responses end in order. */
  const latest = new WeakMap<Socket, ServerResponse>();
  /** The listeners of a connection before node:http adds its own. */
  const own = new WeakMap<Socket, readonly unknown[]>();
  http.prependListener(ready, (socket: Socket) => {
    own.set(
      socket,
      EVENTS.flatMap((event) => socket.listeners(event)),
    );
  });
  http.on("request", ({ socket }, response) => latest.set(socket, response));
  http.on("clientError", (error: ParseError, socket: Socket) => {
    const bytes = fromRawTarget(error);
    const before = latest.get(socket);
    const isAnswered = before === undefined || before.closed;
    if (bytes === undefined) {
      refuse(error, socket, isAnswered || !before.headersSent);
      return;
    }
    hold(socket, new Set(own.get(socket)));
    socket.unshift(bytes);
    if (isAnswered) beginAnew(socket);
    else before.once("close", () => beginAnew(socket));
  });

  function beginAnew(socket: Socket): void {
    if (socket.destroyed) return;
    release(socket, new Set(own.get(socket)));
    http.emit(ready, socket);
    socket.resume();
  }
}

/** The packet from the refused request on, its target escaped; undefined if that is not what was refused. */
function fromRawTarget({ code, rawPacket, bytesParsed = 0 }: ParseError): Buffer | undefined {
  if (code !== "HPE_INVALID_URL" || rawPacket === undefined) return undefined;
  const end = rawPacket.indexOf("\n", bytesParsed);
  if (end < 0) return undefined;
  const start = bytesParsed === 0 ? 0 : rawPacket.lastIndexOf("\n", bytesParsed - 1) + 1;
  const line = rawPacket.toString("latin1", start, end);
  const escaped = escapeRaw(line);
  if (escaped === line || !/^[A-Z]+ \S+ HTTP\/1\.[01]\r?$/.test(escaped)) return undefined;
  return Buffer.concat([Buffer.from(escaped, "latin1"), rawPacket.subarray(end)]);
}

/** Those of a connection that node:http listens to. */
const EVENTS = ["data", "end", "error", "close", "drain", "timeout", "pause", "resume"];

/**
 * Lets node:http finish its answers and see no more of what arrives, the end of the client's side included: it would
 * end the connection with the answer at hand.
 */
function hold(socket: Socket, own: ReadonlySet<unknown>): void {
  // Until someone else listens, node:http reads the connection past the stream.
  socket.on("data", () => {});
  socket.pause();
  forget(socket, ["data", "end"], own);
  socket.on("resume", () => socket.pause());
}

/** Makes node:http let go of a connection as if it had closed. */
function release(socket: Socket, own: ReadonlySet<unknown>): void {
  for (const listener of socket.listeners("close")) if (!own.has(listener)) listener.call(socket);
  forget(socket, EVENTS, own);
}

function forget(socket: Socket, events: readonly string[], own: ReadonlySet<unknown>): void {
  for (const event of events) {
    const kept = socket.rawListeners(event).filter((_, i) => own.has(socket.listeners(event)[i]));
    socket.removeAllListeners(event);
    for (const listener of kept) socket.on(event, listener as () => void);
  }
}

/** Answers as node:http does by default. */
function refuse({ code }: ParseError, socket: Socket, mayAnswer: boolean): void {
  if (socket.writable && mayAnswer) {
    const status = REFUSALS.get(code ?? "") ?? "400 Bad Request";
    socket.write(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
  }
  socket.destroySoon();
}

const REFUSALS: ReadonlyMap<string, string> = new Map([
  ["HPE_HEADER_OVERFLOW", "431 Request Header Fields Too Large"],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", "413 Payload Too Large"],
  ["ERR_HTTP_REQUEST_TIMEOUT", "408 Request Timeout"],
]);
