import { readFileSync } from "node:fs";
import { parseAccounts, readAccounts } from "@rowhouse/server/auth/account-settings";
import type { Accounts } from "@rowhouse/server/auth/accounts";
import { type BearerVerifier, JwtVerifier } from "@rowhouse/server/auth/bearer";
import { readBearerSettings } from "@rowhouse/server/auth/bearer-settings";
import { SettingsError, SettingsSection } from "@rowhouse/server/auth/settings-section";
import { systemClock } from "@rowhouse/server/clock";

export interface Settings {
  readonly accounts: Accounts;
  readonly bearer: BearerVerifier | undefined;
}

/**
 * Who may come in: from the configuration file where it says so, else from `AZURITE_ACCOUNTS`, else
 * the development account.
 * @throws SettingsError naming what was found and what is allowed; never a key.
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

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new SettingsError(`${file} cannot be read as JSON.`, { cause });
  }
}
