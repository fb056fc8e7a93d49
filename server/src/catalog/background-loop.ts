export interface BackgroundLoopOptions {
  readonly run: () => Promise<void>;
  readonly periodMs: number;
  /** Called with every failure; the next run tries again. */
  readonly onError: (error: unknown) => void;
}

/** The work of a service that no request asks for. */
export interface BackgroundWork {
  start(): void;
  /** Resolves when none of the work is in flight any more. */
  close(): Promise<void>;
}

/**
 * Background work that runs periodically and whenever it is woken, never twice at the same time.
 *
 * A loop is idle or running. `wake` starts an idle loop, and makes a running one run once more. A closed loop
 * finishes its current run and begins no other.
 */
export class BackgroundLoop implements BackgroundWork {
  readonly #options: BackgroundLoopOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #wanted = false;
  #closed = false;

  constructor(options: BackgroundLoopOptions) {
    this.#options = options;
  }

  /** Long runs check it between their steps. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Runs now, and then every period, until closed. */
  start(): void {
    this.wake();
    this.#timer = setInterval(() => this.wake(), this.#options.periodMs);
    this.#timer.unref();
  }

  /** Runs soon: in a moment, or once more after the current run. */
  wake(): void {
    if (this.#closed) return;
    this.#wanted = true;
    // In a moment, so that `#running` is set before the run begins: the run may wake other loops, and they this one.
    this.#running ??= Promise.resolve().then(() => this.#runWhileWanted());
  }

  async #runWhileWanted(): Promise<void> {
    const { onError, run } = this.#options;
    try {
      while (this.#wanted && !this.#closed) {
        this.#wanted = false;
        await run().catch((error) => {
          if (!this.#closed) onError(error);
        });
      }
    } finally {
      this.#running = undefined;
    }
  }

  /** Resolves after the current run, which is the last. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#running;
  }
}
