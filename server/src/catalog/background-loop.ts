export interface BackgroundLoopOptions {
  readonly run: () => Promise<void>;
  readonly periodMs: number;
  /** Told of every failure; the next run tries again. */
  readonly onError: (error: unknown) => void;
}

/** What a service does when nobody asks. */
export interface BackgroundWork {
  start(): void;
  /** Resolves when nothing of it is under way any more. */
  close(): Promise<void>;
}

/** Work in the background: now and then, whenever it is woken, and never twice at the same time. */
export class BackgroundLoop implements BackgroundWork {
  readonly #options: BackgroundLoopOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #wanted = false;
  #closed = false;

  constructor(options: BackgroundLoopOptions) {
    this.#options = options;
  }

  /** For long runs to look at between their steps. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Runs now, and then every period, until closed. */
  start(): void {
    this.wake();
    this.#timer = setInterval(() => this.wake(), this.#options.periodMs);
    this.#timer.unref();
  }

  /** Runs soon: in a moment, or once more after the run under way. */
  wake(): void {
    if (this.#closed) return;
    this.#wanted = true;
    // In a moment, so that a run is known to be under way when it begins: it may wake others, and they this.
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

  /** Resolves after the run under way; there is none after it. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#running;
  }
}
