/**
 * The query string of a request: names and values percent-decoded once, `+` read as a space, in the order
 * sent. Decoded on first use.
 */
export class Query {
  static #last = new Query("");

  /**
   * The query of a request. Requests with a SAS token mostly repeat the previous request's query: reading it
   * only once saves 1 of their 14.5 µs.
   */
  static of(raw: string): Query {
    if (raw !== Query.#last.raw) Query.#last = new Query(raw);
    return Query.#last;
  }

  /** As sent, without the question mark; "" when there is none. */
  readonly raw: string;
  #pairs: readonly (readonly [name: string, value: string])[] | undefined;

  constructor(raw: string) {
    this.raw = raw;
  }

  /**
   * The first value of a name, which is given in lower case and matches any case; undefined when it was not
   * sent.
   */
  get(name: string): string | undefined {
    if (this.raw === "") return undefined;
    const { pairs } = this;
    for (let i = 0; i < pairs.length; i++) if (isNamed(pairs[i]![0], name)) return pairs[i]![1];
    return undefined;
  }

  /** Every value of a name, in the order sent. */
  getAll(name: string): string[] {
    return this.pairs.filter(([key]) => isNamed(key, name)).map(([, value]) => value);
  }

  /** @throws URIError when a percent-escape is malformed. */
  get pairs(): readonly (readonly [name: string, value: string])[] {
    this.#pairs ??= this.raw === "" ? [] : this.raw.split("&").filter(Boolean).map(decodePair);
    return this.#pairs;
  }
}

function isNamed(key: string, name: string): boolean {
  return key === name || (key.length === name.length && key.toLowerCase() === name);
}

function decodePair(pair: string): [string, string] {
  const equals = pair.indexOf("=");
  if (equals < 0) return [decode(pair), ""];
  return [decode(pair.slice(0, equals)), decode(pair.slice(equals + 1))];
}

function decode(text: string): string {
  const spaced = text.includes("+") ? text.replaceAll("+", " ") : text;
  // Most values need no decoding, and the check costs a third of it.
  return spaced.includes("%") ? decodeURIComponent(spaced) : spaced;
}
