import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { readAccounts } from "@rowhouse/server/auth/account-settings";
import { SettingsError, SettingsSection } from "@rowhouse/server/auth/settings-section";
import type { Account } from "@rowhouse/server/wire/account";
import { messageOf } from "../message-of.ts";
import { readJson } from "../serve/settings.ts";

/** The accounts in a `--config` file, to be changed by commands. Everything else in the file stays as it is. */
export class ConfigFile {
  readonly #file: string;
  readonly #root: Record<string, unknown>;

  /** A file that does not exist yet has no accounts. @throws SettingsError if it is not what `serve` would accept */
  constructor(file: string) {
    this.#file = file;
    const root = existsSync(file) ? readJson(file) : {};
    if (typeof root !== "object" || root === null || Array.isArray(root))
      throw new SettingsError(`${file} is not a JSON object.`);
    this.#root = { ...root };
    if (this.hasAccounts) this.#read();
  }

  get hasAccounts(): boolean {
    return this.#root.accounts !== undefined;
  }

  get accounts(): readonly Account[] {
    if (!this.hasAccounts) return [];
    const accounts = this.#read();
    return accounts.names.map((name) => accounts.find(name)!);
  }

  /**
   * Replaces all accounts, at once for readers of the file. Its owner and mode stay; a new file is for its owner only.
   * @throws SettingsError if `serve` would not accept them, or the file cannot be written; it is then unchanged
   */
  write(accounts: readonly Account[]): void {
    this.#root.accounts = accounts.map(({ name, keys, disabled }) => ({
      name,
      keys: keys.map((key) => Buffer.from(key).toString("base64")),
      ...(disabled && { disabled }),
    }));
    this.#read();
    const temporary = `${this.#file}.${process.pid}.tmp`;
    try {
      const file = openSync(temporary, "wx", 0o600);
      const existing = statSync(this.#file, { throwIfNoEntry: false });
      if (existing) {
        fchownSync(file, existing.uid, existing.gid);
        fchmodSync(file, existing.mode);
      }
      writeSync(file, `${JSON.stringify(this.#root, null, 2)}\n`);
      fsyncSync(file);
      closeSync(file);
      renameSync(temporary, this.#file);
    } catch (cause) {
      rmSync(temporary, { force: true });
      throw new SettingsError(`Cannot write ${this.#file}: ${messageOf(cause)}`, { cause });
    }
  }

  #read() {
    return readAccounts(new SettingsSection(this.#root, this.#file));
  }
}
