import type { Clock, Random } from "../store/clock.ts";

/** A clock that moves only when told to, or when code sleeps on it: waiting takes no time. */
export class FakeClock implements Clock {
  readonly #alarms = new Set<{ readonly at: number; ring(): void }>();
  #now: number;

  constructor(start = Date.UTC(2026, 0, 1)) {
    this.#now = start;
  }

  now(): number {
    return this.#now;
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const alarm of this.#alarms) {
      if (alarm.at > this.#now) continue;
      this.#alarms.delete(alarm);
      alarm.ring();
    }
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.advance(Math.ceil(ms));
  }

  async alarm(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const abort = () => {
        this.#alarms.delete(alarm);
        reject(signal?.reason);
      };
      const ring = () => {
        signal?.removeEventListener("abort", abort);
        resolve();
      };
      const alarm = { at: this.#now + ms, ring };
      this.#alarms.add(alarm);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}

/** Numbers from 0 to 1, determined by a seed (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
