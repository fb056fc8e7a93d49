import { LIMITS } from "@rowhouse/protocol/limits";
import type { Account } from "../wire/account.ts";
import { Accounts, DEVELOPMENT_ACCOUNT } from "./accounts.ts";
import { SettingsError, type SettingsSection } from "./settings-section.ts";

/**
 * Parses `name:key1[:key2];name2:key1…`, the format of the environment variable `AZURITE_ACCOUNTS`.
 * Absent or empty means the development account only; any other text means only the accounts it
 * names.
 * @throws SettingsError
 */
export function parseAccounts(text: string | undefined): Accounts {
  const parts = (text ?? "")
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  if (parts.length === 0) return new Accounts([DEVELOPMENT_ACCOUNT]);
  return new Accounts(
    parts.map((part, index) => {
      const [name = "", ...keys] = part.split(":");
      return readAccount(name, keys, { position: index + 1, disabled: false });
    }),
  );
}

/**
 * Reads the accounts of a configuration file:
 * `{ "accounts": [{ "name", "keys": [base64], "disabled"? }] }`, given the section that contains
 * the list.
 * @throws SettingsError
 */
export function readAccounts(settings: SettingsSection): Accounts {
  return new Accounts(
    settings.sections("accounts").map((section, index) => {
      const name = section.text("name");
      const keys = section.optionalTexts("keys") ?? [];
      const disabled = section.flag("disabled");
      section.end();
      return readAccount(name, keys, { position: index + 1, disabled });
    }),
  );
}

const ACCOUNT_NAME = /^[a-z0-9]+$/;
/** The paths of the health pages, which would shadow an account. */
const PAGE_NAMES = new Set(["healthz", "readyz"]);
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function readAccount(
  name: string,
  keys: readonly string[],
  { position, disabled }: { position: number; disabled: boolean },
): Account {
  const { accountNameLengthMin: min, accountNameLengthMax: max } = LIMITS;
  if (name.length < min || name.length > max || !ACCOUNT_NAME.test(name)) {
    // A key may have been put in place of the name, so the text is described and not shown.
    const found = name.length > max || name.length < min ? "" : ", some of them not allowed";
    throw new SettingsError(
      `The name of account ${position} has ${name.length} characters${found}; ${min} to ${max} lower-case letters and digits are allowed.`,
    );
  }
  if (PAGE_NAMES.has(name)) {
    throw new SettingsError(
      `An account cannot be called "${name}": the server's own page has that name. Choose another.`,
    );
  }
  if (keys.length === 0 || keys.length > LIMITS.accountKeysMax) {
    throw new SettingsError(
      `Account "${name}" has ${keys.length} keys; 1 or ${LIMITS.accountKeysMax} are allowed.`,
    );
  }
  return { name, keys: keys.map((key, index) => readKey(key, name, index + 1)), disabled };
}

function readKey(key: string, account: string, position: number): Uint8Array {
  if (key === "") throw new SettingsError(`Key ${position} of account "${account}" is empty.`);
  if (!BASE64.test(key)) {
    throw new SettingsError(
      `Key ${position} of account "${account}" has ${key.length} characters and is not base64; it must consist of groups of four letters, digits, "+" or "/", the last padded with "=".`,
    );
  }
  return Buffer.from(key, "base64");
}
