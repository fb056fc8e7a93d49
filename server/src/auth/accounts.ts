import type { Account } from "../wire/account.ts";
import { SettingsError } from "./settings-section.ts";

/** Suffix of the account name when a request addresses the account's read-only replica. */
export const SECONDARY = "-secondary";

/** The accounts that a server serves. Names are compared exactly. */
export class Accounts {
  #accounts: ReadonlyMap<string, Account>;
  #revision = 0;

  /** @throws SettingsError if there is no account or a name is given twice. */
  constructor(accounts: readonly Account[]) {
    const byName = new Map(accounts.map((account) => [account.name, account]));
    if (byName.size === 0)
      throw new SettingsError("No account is configured; at least one is required.");
    const twice = accounts.find((account) => byName.get(account.name) !== account);
    if (twice)
      throw new SettingsError(
        `Account "${twice.name}" is configured twice; name each account once.`,
      );
    this.#accounts = byName;
  }

  find(name: string): Account | undefined {
    return this.#accounts.get(name);
  }

  get names(): string[] {
    return [...this.#accounts.keys()];
  }

  /** Another number after each change: what was looked up before may be stale. */
  get revision(): number {
    return this.#revision;
  }

  /** Serves other accounts from now on. Requests that were authenticated already end as they would have. */
  replaceWith(other: Accounts): void {
    this.#accounts = other.#accounts;
    this.#revision++;
  }
}

/** The account that every client uses for `UseDevelopmentStorage=true`. */
export const DEVELOPMENT_ACCOUNT: Account = {
  name: "devstoreaccount1",
  keys: [
    Buffer.from(
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
      "base64",
    ),
  ],
};
