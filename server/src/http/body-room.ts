import { totalmem } from "node:os";
import { ServiceError } from "@rowhouse/protocol/errors";

/** What is made of a body takes about three times as much beside it. */
const MEMORY_SHARE = 1 / 16;
const ROOM_BYTES_MIN = 64 << 20;

/**
 * The memory that bodies which are read whole may take at a time, from when they are asked for until they
 * are answered. Who finds no room is told to come again, as the service tells it; clients then wait and do.
 * To let it wait here instead would let slow senders keep all others waiting.
 */
export class BodyRoom {
  readonly #bytesMax: number;
  #bytes = 0;

  /** @param bytesMax default: a share of this machine's memory, or of what a container gives of it */
  constructor(bytesMax: number = Math.max(ROOM_BYTES_MIN, memoryBytes() * MEMORY_SHARE)) {
    this.#bytesMax = bytesMax;
  }

  /** Of all that is held just now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws ServiceError ServerBusy where there is no room: the work is not begun. */
  async hold<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    if (this.#bytes + bytes > this.#bytesMax) {
      const cause = new Error(`Bodies of other requests take ${this.#bytes} bytes of memory.`);
      throw new ServiceError("ServerBusy", { cause });
    }
    this.#bytes += bytes;
    try {
      return await work();
    } finally {
      this.#bytes -= bytes;
    }
  }
}

function memoryBytes(): number {
  // Zero, or more than there is, where nothing is set.
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
