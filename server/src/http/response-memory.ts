import { memoryBytes } from "./request-memory.ts";

const MEMORY_SHARE = 1 / 8;
const ROOM_BYTES_MIN = 64 << 20;
/** Most clients have read an answer by then. */
const PATIENCE_MS = 5_000;

/** What ends when it is destroyed: a connection, or an answer of node:http and its connection. */
interface Destroyable {
  destroy(): unknown;
}

interface Wait {
  readonly bytes: number;
  readonly since: number;
}

/**
 * The memory of answers that wait for their clients to read them. A page of a query is up to 16 MiB, and a client
 * can request one on each of many connections and read none: 100 of them took a gigabyte. When such answers exceed
 * a share of the memory, those that have waited longest are cut, but only after some seconds.
 */
export class ResponseMemory {
  readonly #bytesMax: number;
  /** Monotonic milliseconds. */
  readonly #now: () => number;
  /** Oldest first. */
  readonly #waits = new Map<Destroyable, Wait>();
  #bytes = 0;

  /** @param bytesMax default: a share of this machine's memory, or of what a container gets of it */
  constructor(
    bytesMax: number = Math.max(ROOM_BYTES_MIN, memoryBytes() * MEMORY_SHARE),
    now: () => number = () => performance.now(),
  ) {
    this.#bytesMax = bytesMax;
    this.#now = now;
  }

  /** The total now held. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Call when an answer begins to wait, and `remove` when its client has read it or left. */
  add(answer: Destroyable, bytes: number): void {
    this.remove(answer);
    const now = this.#now();
    this.#waits.set(answer, { bytes, since: now });
    this.#bytes += bytes;
    for (const [oldest, { since }] of this.#waits) {
      if (this.#bytes <= this.#bytesMax || now - since < PATIENCE_MS) return;
      this.remove(oldest);
      oldest.destroy();
    }
  }

  remove(answer: Destroyable): void {
    this.#bytes -= this.#waits.get(answer)?.bytes ?? 0;
    this.#waits.delete(answer);
  }
}
