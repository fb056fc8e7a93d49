import { randomInt } from "node:crypto";
import type { Engine } from "../engine/engine.ts";
import type { ContentId } from "./content-store.ts";

const TIME_DIGITS = 11;
const OWN_DIGITS = 5;

/**
 * Ids that are never given twice: the engine's next version, which no other use in this process
 * shares, and a number drawn for this process. They sort by the time they were made, so what is
 * written together is stored together; they are names of files and need no escape in keys.
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

/** Ids made before a time, in milliseconds since 1970, are smaller than this. */
export function firstIdAt(milliseconds: number): string {
  return digits(Math.max(0, milliseconds) * 1000, TIME_DIGITS);
}

function digits(value: number, length: number): string {
  return Math.floor(value).toString(36).padStart(length, "0");
}
