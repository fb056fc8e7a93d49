import { randomInt } from "node:crypto";
import type { Engine } from "../engine/engine.ts";
import type { ContentId } from "./content-store.ts";

const TIME_DIGITS = 11;
const OWN_DIGITS = 5;

/**
 * Ids that are never issued twice: the engine's next version, which nothing else in this process shares, and
 * a random number of this process. They sort by creation time, so contents written together are stored
 * together; they serve as file names, and need no escape in keys.
 */
export class ContentIds {
  readonly #engine: Engine;
  readonly #own = digits(randomInt(36 ** OWN_DIGITS), OWN_DIGITS);

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  next(): ContentId {
    return digits(this.#engine.nextVersion(), TIME_DIGITS) + this.#own;
  }
}

/** Ids created before a time, in milliseconds since 1970, are smaller than this. */
export function firstIdAt(milliseconds: number): string {
  return digits(Math.max(0, milliseconds) * 1000, TIME_DIGITS);
}

function digits(value: number, length: number): string {
  return Math.floor(value).toString(36).padStart(length, "0");
}
