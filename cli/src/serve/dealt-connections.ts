import type { ChildProcess } from "node:child_process";

/**
 * The connections that the primary sent to a worker and that the worker has not acknowledged yet. node:cluster
 * closes its own copy of a connection when the worker accepts it, and sends it to another worker when the worker
 * refuses it. If the worker dies before it does either, the copy stays open forever, and its client keeps waiting.
 */
export class DealtConnections {
  /** By the sequence number of the message that sent each of them. */
  readonly #open = new Map<unknown, { close(): void }>();

  constructor(child: WorkerChannel) {
    const remember = (message: unknown, connection: unknown) => {
      if (isDeal(message) && isHandle(connection)) this.#open.set(message.seq, connection);
    };
    child.send = new Proxy(child.send, {
      apply(send, self, [message, connection, ...rest]) {
        remember(message, connection);
        return Reflect.apply(send, self, [message, connection, ...rest]);
      },
    });
    // A refused connection may be waiting for another worker, which needs this copy to stay open.
    child.on("internalMessage", (message: unknown) => {
      if (isAnswer(message)) this.#open.delete(message.ack);
    });
  }

  /** Closes the copies. Call this when the worker has exited. */
  close(): void {
    for (const connection of this.#open.values()) connection.close();
  }
}

/** The part of a worker's process that is used here. */
interface WorkerChannel {
  send: ChildProcess["send"];
  on(event: "internalMessage", listener: (message: unknown) => void): unknown;
}

function isDeal(message: unknown): message is { readonly seq: unknown } {
  return (
    typeof message === "object" &&
    message !== null &&
    "act" in message &&
    message.act === "newconn" &&
    "seq" in message
  );
}

function isAnswer(message: unknown): message is { readonly ack: unknown } {
  return typeof message === "object" && message !== null && "ack" in message;
}

function isHandle(value: unknown): value is { close(): void } {
  return (
    typeof value === "object" &&
    value !== null &&
    "close" in value &&
    typeof value.close === "function"
  );
}
