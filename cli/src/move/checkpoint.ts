import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";

/**
 * A file that says how far a transfer has come, so that the same command goes on after it was killed. It is written
 * after the destination has acknowledged what it says, and replaced as a whole.
 */
export class Checkpoint<State> {
  readonly #path: string | undefined;
  readonly #purpose: string;

  /** @param purpose what the transfer is, in words; a file of another one is refused */
  constructor(path: string | undefined, purpose: string) {
    this.#path = path;
    this.#purpose = purpose;
  }

  /** Undefined when nothing was begun. @throws Error for a file that is not of this transfer */
  read(): State | undefined {
    if (this.#path === undefined) return undefined;
    let text: string;
    try {
      text = readFileSync(this.#path, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
    const refusal = `${this.#path} is no state of this transfer`;
    let found: { readonly purpose?: unknown; readonly state?: State };
    try {
      found = JSON.parse(text);
    } catch (cause) {
      throw new Error(`${refusal}; name another file for --state.`, { cause });
    }
    if (found.purpose !== this.#purpose) {
      throw new Error(
        `${refusal}, but of: ${String(found.purpose)}. Name another file for --state, or remove it.`,
      );
    }
    return found.state;
  }

  write(state: State): void {
    if (this.#path === undefined) return;
    const next = `${this.#path}.next`;
    const file = openSync(next, "w", 0o600);
    try {
      writeSync(file, `${JSON.stringify({ purpose: this.#purpose, state })}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(next, this.#path);
  }

  /** The transfer is complete. */
  remove(): void {
    if (this.#path !== undefined) rmSync(this.#path, { force: true });
  }
}
