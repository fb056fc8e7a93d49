import { type Clock, elapsedMs } from "../clock.ts";
import { EngineError } from "../engine/engine.ts";
import { BackgroundLoop, type BackgroundWork } from "./background-loop.ts";

export interface BackgroundWriterOptions<Part> {
  readonly clock: Clock;
  /** What several parts are called: "rows of metrics". */
  readonly name: string;
  /** Hands all that waits to `write`, and what else is due. */
  readonly run: () => Promise<void>;
  /** Makes what a part is put into, unless it is there: done twice is done once. */
  readonly prepare: (part: Part) => Promise<void>;
  readonly put: (part: Part) => Promise<void>;
  /** Told of parts that are written, or perhaps are. */
  readonly written: (part: Part) => void;
  /** Lets a part that is not written wait on. */
  readonly giveBack: (part: Part) => void;
  readonly onError: (error: unknown) => void;
}

const PERIOD_MS = 60_000;
/** No part is begun when a server ends for longer than this. */
const CLOSE_MS_MAX = 10_000;

/**
 * Writes what was gathered in memory part by part, once a minute and when the server ends. A crash
 * loses the last minute, and a store that is away at the end what could not be written since it went.
 */
export class BackgroundWriter<Part> implements BackgroundWork {
  readonly #options: BackgroundWriterOptions<Part>;
  readonly #loop: BackgroundLoop;
  /** By the time that goes by, however the clock is set. */
  #endsAt = Number.POSITIVE_INFINITY;

  constructor(options: BackgroundWriterOptions<Part>) {
    this.#options = options;
    const { onError, run } = options;
    this.#loop = new BackgroundLoop({ run, periodMs: PERIOD_MS, onError });
  }

  /** Whether the server ends: only what is gathered is to be written then. */
  get closed(): boolean {
    return this.#loop.closed;
  }

  start(): void {
    this.#loop.start();
  }

  /** Runs soon. */
  wake(): void {
    this.#loop.wake();
  }

  async close(): Promise<void> {
    const { clock, onError, run } = this.#options;
    this.#endsAt = elapsedMs(clock) + CLOSE_MS_MAX;
    await this.#loop.close();
    await run().catch(onError);
  }

  /**
   * Writes parts one after the other. Those that fail wait on, and where the engine is away all that are
   * left: each would wait for its time-out. Damage is told at once, and may be of that part's data alone.
   * @throws the first failure
   */
  async write(parts: readonly Part[]): Promise<void> {
    const { clock, giveBack, name, prepare, put, written } = this.#options;
    const failures: unknown[] = [];
    let begun = 0;
    while (begun < parts.length && elapsedMs(clock) <= this.#endsAt) {
      const part = parts[begun++]!;
      let isPut = false;
      try {
        await prepare(part);
        isPut = true;
        await put(part);
        written(part);
      } catch (error) {
        failures.push(error);
        const code = error instanceof EngineError ? error.code : undefined;
        // May be written: a minute with too little is better than one with something twice.
        if (isPut && code === "Unknown") written(part);
        else giveBack(part);
        if (code !== undefined && code !== "Corrupt") break;
      }
    }
    const left = parts.slice(begun);
    for (const part of left) giveBack(part);
    if (failures.length > 0) throw failures[0];
    if (left.length > 0) {
      throw new Error(`${left.length} ${name} were not written before the server ended.`);
    }
  }
}
