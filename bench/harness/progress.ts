/** One line at the bottom that shows what is running, and lines above it that stay. */
export class Progress {
  readonly #startedAt = performance.now();

  #shownAt = 0;

  /** Replaces the line; if the output is not a terminal, prints a line now and then. */
  show(text: string): void {
    if (process.stderr.isTTY) {
      process.stderr.write(`\r\x1b[K${this.#clock()} ${text}`);
    } else if (performance.now() - this.#shownAt > 10_000) {
      this.#shownAt = performance.now();
      process.stderr.write(`${this.#clock()} ${text}\n`);
    }
  }

  say(text: string): void {
    this.clear();
    process.stderr.write(`${this.#clock()} ${text}\n`);
  }

  clear(): void {
    if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  }

  #clock(): string {
    const seconds = Math.round((performance.now() - this.#startedAt) / 1000);
    return `[${String(Math.floor(seconds / 60)).padStart(2)}:${String(seconds % 60).padStart(2, "0")}]`;
  }
}
