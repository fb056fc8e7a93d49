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

  /** Runs soon: at once, or once more after the run under way. */
  wake(): void {
    if (this.#closed) return;
    if (this.#running) {
      this.#wanted = true;
      return;
    }
    this.#running = this.#options
      .run()
      .catch((error) => {
        if (!this.#closed) this.#options.onError(error);
      })
      .finally(() => {
        this.#running = undefined;
        if (!this.#wanted) return;
        this.#wanted = false;
        this.wake();
      });
  }

  /** Resolves after the run under way; there is none after it. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#running;
  }
}
