import { statSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import { DATA_FILE, noSpaceLeft } from "./data-file.ts";

/** A look takes 3 µs: too much for every commit. */
const LOOK_EVERY_MS = 1000;

/** The folder of an environment that is open, and what can happen to it meanwhile. */
export class DataFolder {
  readonly path: string;
  readonly #clock: Clock;
  readonly #opened: string | undefined;
  #lookedAt: number;

  constructor(path: string, clock: Clock) {
    this.path = path;
    this.#clock = clock;
    this.#opened = this.#fileIdentity();
    this.#lookedAt = clock.now();
  }

  /**
   * Whether the data file is no longer the one that was opened: what is written to a file that was
   * removed is gone with the process. Looked at once a second at most.
   */
  isGone(): boolean {
    const now = this.#clock.now();
    if (Math.abs(now - this.#lookedAt) < LOOK_EVERY_MS) return false;
    this.#lookedAt = now;
    return this.isGoneNow();
  }

  isGoneNow(): boolean {
    return this.#fileIdentity() !== this.#opened;
  }

  noSpaceLeft(): string | undefined {
    try {
      return noSpaceLeft(this.path);
    } catch {
      // The folder is gone, which is not for want of space.
      return undefined;
    }
  }

  #fileIdentity(): string | undefined {
    const file = statSync(join(this.path, DATA_FILE), { throwIfNoEntry: false });
    return file && `${file.dev}:${file.ino}`;
  }
}
