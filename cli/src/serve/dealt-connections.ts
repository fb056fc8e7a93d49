import type { ChildProcess } from "node:child_process";

/**
 * The connections that were dealt to a worker and that it did not answer for yet. node:cluster closes its own copy
 * of each when the worker says that it took it, and deals it to another when it says that it did not. One
 * that dies before leaves a copy open for ever, and a client that waits for it.
 */
export class DealtConnections {
  /** By the number of the message that each went with. */
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
    // What it refused may wait for another worker, which would be told nothing more behind a copy that is closed.
    child.on("internalMessage", (message: unknown) => {
      if (isAnswer(message)) this.#open.delete(message.ack);
    });
  }

  /** Closes those of a worker that has ended. */
  close(): void {
    for (const connection of this.#open.values()) connection.close();
  }
}

/** What is used of a worker's process. */
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
