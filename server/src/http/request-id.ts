import { randomBytes } from "node:crypto";

/**
 * A GUID-shaped id, unique across requests and servers: ten random bytes per service of a process, then a
 * counter. `randomUUID` costs 0.3 µs more, and its randomness buys nothing here.
 */
export class RequestIds {
  readonly #prefix: string;
  #count = 0;

  constructor() {
    const hex = randomBytes(10).toString("hex");
    this.#prefix = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-`;
  }

  next(): string {
    this.#count = (this.#count + 1) % 0x1_0000_0000_0000;
    return this.#prefix + this.#count.toString(16).padStart(12, "0");
  }
}
