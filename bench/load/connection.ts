import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Target } from "./request-writer.ts";
import { ResponseReader } from "./response-reader.ts";
import type { Client, Outcome, Workload } from "./workload.ts";

/** Decides whether another operation starts, and learns how each one ended. */
export interface Meter {
  /** If one starts, `begin` is called when it is due, with the time that its latency counts from. */
  next(client: Client, begin: (at: number) => void): boolean;
  finish(outcome: Outcome, milliseconds: number, connection: Connection): void;
}

/**
 * One client on one keep-alive connection: it waits for an answer, then sends the next request when the meter
 * allows.
 */
export class Connection {
  readonly reader = new ResponseReader();
  /** Resolves when the meter wants no more operations; rejects if the server closes the connection before. */
  readonly finished: Promise<void>;
  /** Operations that finished while the meter was measuring. */
  operations = 0;
  readonly #socket: Socket;
  readonly #client: Client;
  readonly #workload: Workload;
  readonly #meter: Meter;
  #startedAt = 0;
  #end: () => void = () => {};
  #fail: (error: Error) => void = () => {};

  private constructor(target: Target, client: Client, workload: Workload, meter: Meter) {
    this.#client = client;
    this.#workload = workload;
    this.#meter = meter;
    this.finished = new Promise((resolve, reject) => {
      this.#end = resolve;
      this.#fail = reject;
    });
    this.#socket = connect({
      host: target.host,
      port: target.port,
      noDelay: true,
      // One buffer for all connections and no stream in between: bytes are read before the next ones arrive.
      onread: {
        buffer: RECEIVE_BUFFER,
        callback: (length) => {
          this.#receive(RECEIVE_BUFFER.subarray(0, length));
          return true;
        },
      },
    });
    this.#socket.on("error", this.#fail);
    this.#socket.on("close", () => this.#fail(new Error("The server closed a connection in use.")));
  }

  static async open(
    target: Target,
    client: Client,
    workload: Workload,
    meter: Meter,
  ): Promise<Connection> {
    const connection = new Connection(target, client, workload, meter);
    await Promise.race([once(connection.#socket, "connect"), connection.finished]);
    return connection;
  }

  start(): void {
    if (this.#meter.next(this.#client, this.#begin)) return;
    this.#end();
    this.#socket.destroy();
  }

  #begin = (at: number): void => {
    this.#startedAt = at;
    this.#send();
  };

  #send(): void {
    const request = this.#workload.request(this.#client);
    if (typeof request === "string") {
      this.#socket.write(request, "latin1");
    } else {
      this.#socket.write(request.head, "latin1");
      this.#socket.write(request.body);
    }
  }

  #receive(bytes: Buffer): void {
    try {
      if (!this.reader.read(bytes)) return;
      const outcome = this.#workload.answered(this.#client, this.reader);
      if (outcome === "again") {
        this.#send();
      } else if (typeof outcome === "object") {
        setTimeout(() => this.#send(), outcome.againAfterMs);
      } else {
        this.#meter.finish(outcome, performance.now() - this.#startedAt, this);
        this.start();
      }
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      this.#socket.destroy();
    }
  }
}

const RECEIVE_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);
