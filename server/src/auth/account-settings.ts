import type { Account } from "./accounts.ts";

/** The accounts a server answers for. Names are compared exactly. */
export class Accounts {
  readonly #accounts: ReadonlyMap<string, Account>;

  constructor(accounts: Iterable<Account>) {
    this.#accounts = new Map([...accounts].map((account) => [account.name, account]));
  }

  find(name: string): Account | undefined {
    return this.#accounts.get(name);
  }

  get names(): string[] {
    return [...this.#accounts.keys()];
  }
}
