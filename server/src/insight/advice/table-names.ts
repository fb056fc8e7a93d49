/**
 * Gives each table one `account/table` name, whatever case requests use: the name stored with its data, or
 * else the first one met.
 */
export class TableNames {
  readonly #names = new Map<string, string>();

  constructor(stored: Iterable<string> = []) {
    for (const name of stored) this.meet(name);
  }

  meet(name: string): string {
    const known = this.find(name);
    if (known === undefined) this.#names.set(name.toLowerCase(), name);
    return known ?? name;
  }

  find(name: string): string | undefined {
    return this.#names.get(name.toLowerCase());
  }
}
