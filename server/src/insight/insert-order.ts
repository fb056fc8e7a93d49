import { ownText } from "./own-text.ts";

/** How the keys of new entities follow each other. */
export type OrderVerdict = "append" | "prepend" | "spread" | "too few";

const WINDOW = 64;
/** Of 64 keys in random order 5 are the largest so far; of keys that ascend, all. */
const RECORDS_MIN = 0.85;

/**
 * Tells partition keys that ascend with time, so that all new entities land at the end of the table,
 * from keys that spread. Judged in windows of 64 inserts: one outlier must not hide the order of all
 * that come after it, and clients that write in parallel are a little out of order.
 */
export class InsertOrder {
  #inWindow = 0;
  #highest = "";
  #lowest = "";
  #highestEver = "";
  #lowestEver = "";
  #above = 0;
  #below = 0;
  #appendWindows = 0;
  #prependWindows = 0;
  #windows = 0;
  /** The last keys that were the highest or lowest when they came. */
  #examples: string[] = [];

  add(partitionKey: string): void {
    if (this.#inWindow === 0) {
      this.#highest = ownText(partitionKey);
      this.#lowest = this.#highest;
    } else if (partitionKey > this.#highest) {
      this.#highest = ownText(partitionKey);
      this.#above++;
      this.#remember(this.#highest);
    } else if (partitionKey < this.#lowest) {
      this.#lowest = ownText(partitionKey);
      this.#below++;
      this.#remember(this.#lowest);
    }
    this.#inWindow++;
    if (this.#inWindow < WINDOW) return;
    this.#windows++;
    // Keys that ascend through partitions that are there already, again and again, are no append.
    const rises = this.#windows === 1 || this.#highest > this.#highestEver;
    const falls = this.#windows === 1 || this.#lowest < this.#lowestEver;
    if (rises) this.#highestEver = this.#highest;
    if (falls) this.#lowestEver = this.#lowest;
    if (rises && this.#above >= RECORDS_MIN * (WINDOW - 1)) this.#appendWindows++;
    if (falls && this.#below >= RECORDS_MIN * (WINDOW - 1)) this.#prependWindows++;
    this.#inWindow = 0;
    this.#above = 0;
    this.#below = 0;
    // What a table did long ago must not outweigh what it does now.
    if (this.#windows === 64) {
      this.#windows /= 2;
      this.#appendWindows /= 2;
      this.#prependWindows /= 2;
      // An outlier is forgotten with the windows it came in.
      this.#highestEver = this.#highest;
      this.#lowestEver = this.#lowest;
    }
  }

  get verdict(): OrderVerdict {
    if (this.#windows < 1) return "too few";
    if (this.#appendWindows > this.#windows / 2) return "append";
    if (this.#prependWindows > this.#windows / 2) return "prepend";
    return "spread";
  }

  get examples(): readonly string[] {
    return this.#examples;
  }

  #remember(key: string): void {
    if (this.#examples.length === 3) this.#examples.shift();
    this.#examples.push(key);
  }
}
