/**
 * `account/table`, one name for each table whatever the case in which it was addressed: as it is called where
 * its data is, else as it was met first.
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
