import { Socket } from "node:net";

/** As much as a stream would ask the system for. */
const LENT_BYTES = 64 * 1024;

/**
 * A socket whose reads, once somebody takes them, all go into one buffer. A readable stream allocates
 * 64 KB for each read and leaves most of it to the garbage collector: point reads through the engine took 1.2 to 1.6
 * times the processor time of this process, one at a time. Until then, and for what encrypts, it is a stream.
 */
export class LentReads {
  readonly socket: Socket;
  #take: ((bytes: Buffer) => void) | undefined;

  constructor() {
    const lent = Buffer.allocUnsafeSlow(LENT_BYTES);
    const callback = (bytes: number): boolean => {
      const part = lent.subarray(0, bytes);
      if (this.#take === undefined) return this.socket.push(Buffer.from(part));
      this.#take(part);
      return true;
    };
    // The types of Node.js know the option for `connect` only.
    const options: object = { onread: { buffer: lent, callback } };
    this.socket = new Socket(options);
  }

  /** From now on the bytes of each read are lent to `take` until it returns. */
  takeBy(take: (bytes: Buffer) => void): void {
    this.#take = take;
  }
}
