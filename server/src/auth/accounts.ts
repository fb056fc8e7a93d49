import { SettingsError } from "./settings-section.ts";

/** A storage account this server answers for. The object never changes: other keys are another one. */
export interface Account {
  /** 3 to 24 lower-case letters and digits. */
  readonly name: string;
  /** One or two shared keys, decoded from base64. Either is good. */
  readonly keys: readonly Uint8Array[];
  /** Known, but every request is refused with AccountIsDisabled. */
  readonly disabled?: boolean;
}

/** Stands behind the name of an account where its read-only replica is addressed. */
export const SECONDARY = "-secondary";

/** The accounts a server answers for. Names are compared exactly. */
export class Accounts {
  readonly #accounts: ReadonlyMap<string, Account>;

  /** @throws SettingsError for no account or a name given twice. */
  constructor(accounts: readonly Account[]) {
    const byName = new Map(accounts.map((account) => [account.name, account]));
    if (byName.size === 0)
      throw new SettingsError("No account is configured; at least one must be.");
    const twice = accounts.find((account) => byName.get(account.name) !== account);
    if (twice) throw new SettingsError(`Account "${twice.name}" is configured twice.`);
    this.#accounts = byName;
  }

  find(name: string): Account | undefined {
    return this.#accounts.get(name);
  }

  get names(): string[] {
    return [...this.#accounts.keys()];
  }
}

/** The account every client knows by `UseDevelopmentStorage=true`. */
export const DEVELOPMENT_ACCOUNT: Account = {
  name: "devstoreaccount1",
  keys: [
    Buffer.from(
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
      "base64",
    ),
  ],
};
