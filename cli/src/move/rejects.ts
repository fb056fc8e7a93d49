import { closeSync, openSync, writeSync } from "node:fs";

/** How many are printed; the file has all. */
const PRINTED_MAX = 20;

export interface Reject {
  /** `films.csv line 7`, or the keys of an entity. */
  readonly where: string;
  readonly reason: string;
  /** What was not taken, as it was found. */
  readonly found?: string;
}

/** Collects what could not be taken: prints the first few and writes all of them to a file of JSON lines. */
export class Rejects {
  readonly #path: string | undefined;
  readonly #say: (line: string) => void;
  #file: number | undefined;
  count = 0;

  constructor(path: string | undefined, say: (line: string) => void) {
    this.#path = path;
    this.#say = say;
  }

  add(reject: Reject): void {
    this.count++;
    if (this.count <= PRINTED_MAX) this.#say(`refused: ${reject.where}: ${reject.reason}`);
    else if (this.count === PRINTED_MAX + 1) {
      const all = this.#path === undefined ? "name a file with --rejects" : `see ${this.#path}`;
      this.#say(`refused: more than ${PRINTED_MAX}; for all of them ${all}`);
    }
    if (this.#path === undefined) return;
    this.#file ??= openSync(this.#path, "a", 0o600);
    writeSync(this.#file, `${JSON.stringify(reject)}\n`);
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }
}
