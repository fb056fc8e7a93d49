import { totalmem } from "node:os";
import { ServiceError } from "@rowhouse/protocol/errors";

/** What is built from a body takes about three times its size in addition. */
const MEMORY_SHARE = 1 / 16;
const ROOM_BYTES_MIN = 64 << 20;

/**
 * The memory that bodies read whole may occupy at a time, each from the start of reading until its answer.
 * When there is no room, the request is refused with ServerBusy and the client backs off and retries.
 * Queueing it here instead would let slow senders delay all others.
 */
export class RequestMemory {
  readonly #bytesMax: number;
  #bytes = 0;

  /** @param bytesMax default: a share of this machine's memory, or of the container's limit */
  constructor(bytesMax: number = Math.max(ROOM_BYTES_MIN, memoryBytes() * MEMORY_SHARE)) {
    this.#bytesMax = bytesMax;
  }

  /** Bytes held at present. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws ServiceError ServerBusy where there is no room: the work is not started. */
  async hold<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    if (this.#bytes + bytes > this.#bytesMax) {
      const cause = new Error(`Bodies of other requests occupy ${this.#bytes} bytes of memory.`);
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

/** Of this machine, or of the container. */
export function memoryBytes(): number {
  // Zero, or more than the machine has, where no limit is set.
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
