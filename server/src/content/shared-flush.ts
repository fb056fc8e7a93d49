/**
 * A flush shared by many writers to one place: callers that request a flush while one is running share the next.
 *
 * The flush is idle, running, or running with a next one requested. A flush that failed may have discarded
 * data it was to keep, and a later one that succeeds does not know. So everything made before a failure was
 * known fails with it.
 */
export class SharedFlush {
  readonly #flush: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #failed: { readonly times: number; readonly error?: unknown } = { times: 0 };

  constructor(flush: () => Promise<void>) {
    this.#flush = flush;
  }

  /** How many flushes have failed: read it before making something, and pass it to `flush`. */
  get failures(): number {
    return this.#failed.times;
  }

  /** Resolves when everything made since the failure count was `since` is on disk. */
  flush(since: number): Promise<void> {
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
