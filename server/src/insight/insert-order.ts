import { detachedString } from "./detached-string.ts";
import { type TimeKey, timeKeyOf } from "./time-key.ts";

/** The order in which new partition keys arrive. */
export type OrderVerdict = "append" | "prepend" | "spread" | "one partition" | "too few";

const WINDOW = 64;
const WINDOWS_MAX = 64;
/** Of 64 keys in random order, about 5 are the largest so far; of ascending keys, all are. */
const RECORDS_MIN = 0.85;
/** Of this many keys in random order, all are records in one of 40,000 windows. */
const STEPS_MIN = 8;
const TIMELESS_MAX = (1 - RECORDS_MIN) * WINDOW;

/**
 * Distinguishes partition keys that ascend with time, so that all new entities land at the end of the table,
 * from keys that spread. Inserts are judged in windows of 64: one outlier must not hide the order of all keys
 * after it, and clients that write in parallel are slightly out of order. If many entities share a key, such
 * as the day, no key is new; then the keys are compared with the time of writing.
 */
export class InsertOrder {
  #lastAt = 0;
  #inWindow = 0;
  #highest = "";
  #lowest = "";
  #highestEver = "";
  #lowestEver = "";
  #above = 0;
  #below = 0;
  #repeats = 0;
  #appendWindows = 0;
  #prependWindows = 0;
  #windows = 0;
  /** Keys of this window that are not the time of writing; and the form of the first key that was. */
  #timeless = 0;
  #time: TimeKey | undefined;
  #timeWindows = 0;
  /** Whether times follow several prefixes, which spread them. */
  #isSpreadTime = false;
  #last = "";
  /** The first key, and whether another came. */
  #only: string | undefined;
  #isOne = true;
  /** The last keys that were the highest or lowest on arrival. */
  #examples: string[] = [];

  /** @param at time of the write, in milliseconds since 1970 */
  add(partitionKey: string, at: number): void {
    this.#lastAt = at;
    this.#only ??= detachedString(partitionKey);
    if (partitionKey !== this.#only) this.#isOne = false;
    this.#lookForTime(partitionKey, at);
    if (this.#inWindow === 0) {
      this.#highest = detachedString(partitionKey);
      this.#lowest = this.#highest;
    } else if (partitionKey > this.#highest) {
      this.#highest = detachedString(partitionKey);
      this.#above++;
      this.#remember(this.#highest);
    } else if (partitionKey < this.#lowest) {
      this.#lowest = detachedString(partitionKey);
      this.#below++;
      this.#remember(this.#lowest);
    } else if (partitionKey === this.#highest || partitionKey === this.#lowest) this.#repeats++;
    this.#inWindow++;
    if (this.#inWindow === WINDOW) this.#endWindow();
  }

  #endWindow(): void {
    this.#windows++;
    // Keys that ascend through existing partitions again and again are no append.
    const rises = this.#windows === 1 || this.#highest > this.#highestEver;
    const falls = this.#windows === 1 || this.#lowest < this.#lowestEver;
    if (rises) this.#highestEver = this.#highest;
    if (falls) this.#lowestEver = this.#lowest;
    if (this.#isTimeWindow()) this.#timeWindows++;
    // Further entities of a partition say nothing about where the next partition lands.
    const steps = WINDOW - 1 - this.#repeats;
    const recordsMin = Math.max(RECORDS_MIN * steps, STEPS_MIN);
    if (rises && this.#above >= recordsMin) this.#appendWindows++;
    if (falls && this.#below >= recordsMin) this.#prependWindows++;
    this.#inWindow = 0;
    this.#above = 0;
    this.#below = 0;
    this.#repeats = 0;
    this.#timeless = 0;
    this.#last = "";
    if (this.#windows === WINDOWS_MAX) this.#fade();
  }

  /** A table's past must not outweigh its present. */
  #fade(): void {
    this.#windows /= 2;
    this.#appendWindows /= 2;
    this.#prependWindows /= 2;
    this.#timeWindows /= 2;
    // An outlier is forgotten with the windows around it.
    this.#highestEver = this.#highest;
    this.#lowestEver = this.#lowest;
  }

  /** Time of the last insert. */
  get lastAt(): number {
    return this.#lastAt;
  }

  get verdict(): OrderVerdict {
    if (this.#windows < 1) return "too few";
    if (this.#appendWindows > this.#windows / 2) return "append";
    if (this.#prependWindows > this.#windows / 2) return "prepend";
    if (!this.isByTime) return this.#isOne ? "one partition" : "spread";
    return this.#time?.ascends ? "append" : "prepend";
  }

  /** Whether partition keys are the time of writing, with at most one prefix. */
  get isByTime(): boolean {
    return !this.#isSpreadTime && this.#timeWindows > this.#windows / 2;
  }

  get examples(): readonly string[] {
    return this.#examples;
  }

  /** A few keys that are no times decide a window, so for most tables the other keys are not examined. */
  #lookForTime(partitionKey: string, at: number): void {
    if (this.#isSpreadTime || this.#timeless > TIMELESS_MAX || partitionKey === this.#last) return;
    const time = timeKeyOf(partitionKey, at);
    if (time === undefined) {
      this.#timeless++;
      return;
    }
    this.#last = detachedString(partitionKey);
    this.#time ??= { prefix: detachedString(time.prefix), ascends: time.ascends };
    if (time.prefix !== this.#time.prefix) this.#isSpreadTime = true;
    this.#remember(this.#last);
  }

  #isTimeWindow(): boolean {
    return this.#time !== undefined && this.#timeless <= TIMELESS_MAX;
  }

  #remember(key: string): void {
    if (this.#examples.includes(key)) return;
    if (this.#examples.length === 3) this.#examples.shift();
    this.#examples.push(key);
  }
}
