import { readFileSync } from "node:fs";
import { parseAccounts, readAccounts } from "@rowhouse/server/auth/account-settings";
import type { Accounts } from "@rowhouse/server/auth/accounts";
import { type BearerVerifier, JwtVerifier } from "@rowhouse/server/auth/bearer";
import { readBearerSettings } from "@rowhouse/server/auth/bearer-settings";
import { SettingsError, SettingsSection } from "@rowhouse/server/auth/settings-section";
import { systemClock } from "@rowhouse/server/clock";
import { messageOf } from "../message-of.ts";

export interface Settings {
  readonly accounts: Accounts;
  readonly bearer: BearerVerifier | undefined;
}

/**
 * Reads accounts and token issuers. Accounts come from the configuration file if it lists any, otherwise from
 * `AZURITE_ACCOUNTS`, otherwise only the development account exists.
 * @throws SettingsError that names what was found and what is allowed, but never a key.
 */
export function readSettings(file: string | undefined, environment: NodeJS.ProcessEnv): Settings {
  const fromEnvironment = () => parseAccounts(environment.AZURITE_ACCOUNTS);
  if (file === undefined) return { accounts: fromEnvironment(), bearer: undefined };
  const root = new SettingsSection(readJson(file), file);
  const accounts = root.value("accounts") === undefined ? fromEnvironment() : readAccounts(root);
  const bearer = root.value("bearer");
  root.end();
  return {
    accounts,
    bearer:
      bearer === undefined
        ? undefined
        : new JwtVerifier(readBearerSettings(new SettingsSection(bearer, "bearer")), systemClock),
  };
}

/** @throws SettingsError that never quotes the file, which contains keys */
export function readJson(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw new SettingsError(`Cannot read the --config file: ${messageOf(cause)}`, { cause });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SettingsError(`${file} is not JSON${placeOf(cause, text)}.`, { cause });
  }
}

/** Where parsing failed, if the parser reports it. Its full message quotes the surrounding text, which may be a key. */
function placeOf(error: unknown, text: string): string {
  const [, position] = / at position (\d+)/.exec(messageOf(error)) ?? [];
  if (position === undefined) return "";
  const lines = text.slice(0, Number(position)).split("\n");
  return `: line ${lines.length}, column ${lines.at(-1)!.length + 1}`;
}
