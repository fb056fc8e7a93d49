/** A time as RFC 1123 text, cached for the second it is valid: most requests share it. */
export class HttpDate {
  #second = Number.NaN;
  #text = "";

  /** @param now milliseconds since 1970 */
  at(now: number): string {
    const second = Math.floor(now / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = new Date(second * 1000).toUTCString();
    }
    return this.#text;
  }
}
