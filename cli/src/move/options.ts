import { type Command, InvalidArgumentError } from "commander";
import { notEmpty } from "../not-empty.ts";
import { assertReachable } from "../reachable.ts";
import { parseTableEndpoint, TableConnection } from "./table-endpoint.ts";

/** In words for `--help`: what names an account. */
export const ENDPOINT_HELP =
  "a connection string, or the URL of an account's tables: with a SAS, with its key in AZURITE_ACCOUNTS, or of the development account";

/** @throws Error for text that names no endpoint, or one that is not there */
export async function connect(text: string, signal: AbortSignal): Promise<TableConnection> {
  const endpoint = parseTableEndpoint(text, process.env);
  await assertReachable(new URL(endpoint.url));
  return new TableConnection({ endpoint, signal });
}

export function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, notEmpty(text)];
}

export function countOption(most: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (/^[1-9]\d{0,8}$/.test(text) && count <= most) return count;
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}.`);
  };
}

/** Options of every command that moves entities and may be interrupted. */
export function addTransferOptions(command: Command): Command {
  return command
    .option("--rate <entities>", "at most so many entities a second", countOption(999_999_999))
    .option(
      "--state <file>",
      "keeps how far it has come; the same command then goes on after it was stopped or killed",
      notEmpty,
    )
    .option("--dry-run", "read and check everything, write nothing");
}

export interface TransferOptions {
  readonly rate?: number;
  readonly state?: string;
  readonly dryRun?: true;
}

/** Ends the transfer at the next request when the terminal asks for it. */
export function interruptible(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => controller.abort(new Error(`interrupted by ${signal}.`)));
  }
  return controller.signal;
}
