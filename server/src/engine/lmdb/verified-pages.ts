/** Forgets everything after this time, so that what is read again from a disk is checked again. */
const FORGET_MS = 3_600_000;
/** 1 MiB, enough for 1 GiB of data; pages that share a place are checked more often. */
const PLACES = 2 ** 17;

/**
 * Pages that were checked and found intact, each by its number and the transaction that wrote it: from then on it
 * never changes. Checking the checksums of seven entries of 1 KB takes longer than walking over them.
 */
export class VerifiedPages {
  readonly #pages = new Uint32Array(PLACES);
  readonly #transactions = new Uint32Array(PLACES);
  #since = 0;

  /** @param now as of `performance.now()` */
  forgetOld(now: number): void {
    if (now - this.#since < FORGET_MS) return;
    this.#since = now;
    this.#pages.fill(0);
  }

  /** Both numbers in 32 bits; page 0 is a meta page. */
  has(page: number, transaction: number): boolean {
    const place = page % PLACES;
    return this.#pages[place] === page >>> 0 && this.#transactions[place] === transaction;
  }

  add(page: number, transaction: number): void {
    const place = page % PLACES;
    this.#pages[place] = page;
    this.#transactions[place] = transaction;
  }
}
