import { type Clock, elapsedMs } from "../clock.ts";
import { EngineError } from "../engine/engine.ts";
import { BackgroundLoop, type BackgroundWork } from "./background-loop.ts";

export interface BackgroundWriterOptions<Part> {
  readonly clock: Clock;
  /** The plural name of the parts: "rows of metrics". */
  readonly name: string;
  /** Passes all waiting parts to `write`, and does whatever else is due. */
  readonly run: () => Promise<void>;
  /** Creates what the part is put into if it is missing; may be called again. */
  readonly prepare: (part: Part) => Promise<void>;
  readonly put: (part: Part) => Promise<void>;
  /** Called with parts that are written, or may be. */
  readonly written: (part: Part) => void;
  /** Puts a part that is not written back to wait. */
  readonly giveBack: (part: Part) => void;
  readonly onError: (error: unknown) => void;
}

const PERIOD_MS = 60_000;
/** Once a server has been closing for this long, no further part is begun. */
const CLOSE_MS_MAX = 10_000;

/**
 * Writes parts gathered in memory one by one, once a minute and when the server closes. A crash loses the last
 * minute; a store that is unavailable at the close loses whatever could not be written since it went away.
 */
export class BackgroundWriter<Part> implements BackgroundWork {
  readonly #options: BackgroundWriterOptions<Part>;
  readonly #loop: BackgroundLoop;
  /** In elapsed time, so that setting the clock changes nothing. */
  #endsAt = Number.POSITIVE_INFINITY;

  constructor(options: BackgroundWriterOptions<Part>) {
    this.#options = options;
    const { onError, run } = options;
    this.#loop = new BackgroundLoop({ run, periodMs: PERIOD_MS, onError });
  }

  /** Whether the server is closing: then only what is already gathered is to be written. */
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
   * Writes parts one after the other. Those that fail go back to wait, and if the engine is unavailable so do
   * all the rest: each would wait for its timeout. Damaged data fails immediately, and may be only that part's.
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
        // It may be written: a minute with too little is better than one with something twice.
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
