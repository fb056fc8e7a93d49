import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import type { Account } from "@rowhouse/server/wire/account";
import { type Command, Option } from "commander";
import { ConfigFile } from "./account/config-file.ts";
import { notEmpty } from "./not-empty.ts";

/** As long as the keys of the cloud's accounts. */
const KEY_BYTES = 64;

interface FileOption {
  readonly config?: string;
}

/** `rowhouse account create|list|key`: the accounts in the file that `serve --config` reads. */
export function addAccountCommand(program: Command): void {
  const account = program
    .command("account")
    .description("create and list accounts, print and renew their keys");
  const add = (name: string, description: string) =>
    account.command(name).description(description).addOption(configOption());

  add("create", "add an account with two new keys to the --config file, and print the first key")
    .argument("<name>", "3 to 24 lower-case letters and digits", notEmpty)
    .action((name: string, { config }: FileOption) => {
      const file = new ConfigFile(named(config));
      if (file.accounts.some((each) => each.name === name))
        throw new Error(
          `There is an account "${name}" already; rowhouse account key prints its key.`,
        );
      const created: Account = { name, keys: [newKey(), newKey()] };
      file.write([...file.accounts, created]);
      printKey(created, 0);
      remind();
    });

  add("list", "print the accounts that a server with this --config file serves").action(
    ({ config }: FileOption) => {
      for (const { name, keys, disabled } of accountsOf(config)) {
        const count = keys.length === 1 ? "1 key" : `${keys.length} keys`;
        process.stdout.write(`${name}  ${count}${disabled ? ", disabled" : ""}\n`);
      }
    },
  );

  add("key", "print a key of an account")
    .argument("<name>", "the account", notEmpty)
    .option("--second", "its second key, instead of the first")
    .option("--renew", "replace this key by a new one first; the other stays valid meanwhile")
    .action((name: string, options: FileOption & { second?: true; renew?: true }) => {
      const position = options.second ? 1 : 0;
      if (options.renew) {
        const file = new ConfigFile(named(options.config));
        const found = accountNamed(name, file.accounts);
        const keys = [...found.keys];
        // An account with a single key gets its second one, so that the first stays valid meanwhile.
        keys[position] = newKey();
        const renewed = { ...found, keys };
        file.write(file.accounts.map((each) => (each.name === name ? renewed : each)));
        printKey(renewed, position);
        remind();
        return;
      }
      printKey(accountNamed(name, accountsOf(options.config)), position);
    });
}

/** The file with the accounts, for every command that needs them. */
export function configOption(): Option {
  return new Option("--config <file>", "a JSON file with accounts and bearer token issuers")
    .env("ROWHOUSE_CONFIG")
    .argParser(notEmpty);
}

/**
 * The accounts that `serve` serves with this file: those in it or else in `AZURITE_ACCOUNTS`.
 * @throws Error if there is no such file, with which `serve` does not start either
 */
export function accountsOf(config: string | undefined): readonly Account[] {
  if (config !== undefined && !existsSync(config))
    throw new Error(
      `There is no file ${config}; rowhouse account create NAME --config ${config} creates it.`,
    );
  const file = config === undefined ? undefined : new ConfigFile(config);
  if (file?.hasAccounts) return file.accounts;
  const accounts = parseAccounts(process.env.AZURITE_ACCOUNTS);
  return accounts.names.map((name) => accounts.find(name)!);
}

export function accountNamed(name: string, accounts: readonly Account[]): Account {
  const found = accounts.find((each) => each.name === name);
  if (found) return found;
  const names = accounts.map((each) => each.name).join(", ") || "none";
  throw new Error(`There is no account "${name}"; the accounts are: ${names}.`);
}

function named(config: string | undefined): string {
  if (config !== undefined) return config;
  throw new Error("No file is named: pass --config FILE, or set ROWHOUSE_CONFIG.");
}

function newKey(): Uint8Array {
  return randomBytes(KEY_BYTES);
}

function printKey({ name, keys }: Account, position: number): void {
  const key = keys[position];
  if (key === undefined) throw new Error(`Account "${name}" has ${keys.length} key(s).`);
  process.stdout.write(`${Buffer.from(key).toString("base64")}\n`);
}

/** On standard error: a script reads the key from standard output. */
function remind(): void {
  process.stderr.write("A server that runs reads the file again at SIGHUP.\n");
}
