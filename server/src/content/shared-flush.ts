/**
 * A flush of one place that many write to: those who ask during one share the next.
 *
 * A flush that failed may have let go of what it was to keep, and one after it that succeeds knows
 * nothing of that. So all that was made before a failure was known is refused with it.
 */
export class SharedFlush {
  readonly #flush: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #failed: { readonly times: number; readonly error?: unknown } = { times: 0 };

  constructor(flush: () => Promise<void>) {
    this.#flush = flush;
  }

  /** How many have failed: to be asked before something is made, and told to `keep`. */
  get failures(): number {
    return this.#failed.times;
  }

  /** Resolves when what was made since there were so many failures is on disk. */
  keep(since: number): Promise<void> {
    const { times, error } = this.#failed;
    if (since !== times) return Promise.reject(error);
    if (this.#next) return this.#next;
    if (!this.#running) return this.#begin();
    this.#next = this.#running.then(
      () => this.#begin(),
      (error) => {
        this.#next = undefined;
        throw error;
      },
    );
    return this.#next;
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    const running = this.#attempt();
    this.#running = running;
    return running;
  }

  async #attempt(): Promise<void> {
    try {
      await this.#flush();
    } catch (error) {
      this.#failed = { times: this.#failed.times + 1, error };
      throw error;
    } finally {
      this.#running = undefined;
    }
  }
}
