import type { RunningServer } from "@rowhouse/server/server";
import type { Account } from "@rowhouse/server/wire/account";
import { SERVICE_NAMES, type ServiceName } from "@rowhouse/server/wire/service-name";
import { type Command, Option } from "commander";
import { accountNamed, accountsOf, configOption } from "./account.ts";
import { notEmpty } from "./not-empty.ts";
import { PORTS, parsePort } from "./serve/serve-options.ts";

const FORMATS = ["text", "env", "json", "docker", "dotnet"] as const;

type ConnectionOptions = { readonly [Name in ServiceName as `${Name}Port`]: number } & {
  readonly account?: string;
  readonly config?: string;
  readonly format: (typeof FORMATS)[number];
  readonly host?: string;
  readonly https?: true;
};

/** The name by which a container reaches the machine that it runs on. */
const HOST_OF_CONTAINERS = "host.docker.internal";

/** `rowhouse connection-string`: what clients need to reach a server that was started with the same flags. */
export function addConnectionStringCommand(program: Command): void {
  const command = program
    .command("connection-string")
    .description("print the connection string of an account")
    .option("--account <name>", "the account; default: the first", notEmpty)
    .addOption(configOption())
    .addOption(
      new Option("--format <format>", "how it is printed").choices(FORMATS).default("text"),
    )
    .option(
      "--host <host>",
      `where the server is; default: 127.0.0.1, and ${HOST_OF_CONTAINERS} with --format docker`,
      notEmpty,
    )
    .option("--https", "the server has a certificate");
  for (const name of SERVICE_NAMES)
    command.addOption(
      new Option(`--${name}Port <port>`, `the port of the ${name} service`)
        .default(PORTS[name])
        .argParser(parsePort),
    );
  command.action((options: ConnectionOptions) => {
    const accounts = accountsOf(options.config);
    const account =
      options.account === undefined ? accounts[0]! : accountNamed(options.account, accounts);
    process.stdout.write(`${printed(options, account)}\n`);
  });
}

function printed(options: ConnectionOptions, account: Account): string {
  const { format } = options;
  const host = options.host ?? (format === "docker" ? HOST_OF_CONTAINERS : "127.0.0.1");
  const scheme = options.https ? "https" : "http";
  const urls = Object.fromEntries(
    SERVICE_NAMES.map((name) => [name, `${scheme}://${host}:${options[`${name}Port`]}`]),
  );
  const text = connectionString(urls, account);
  switch (format) {
    case "text":
      return text;
    case "env":
      // For a shell: `export $(…)` and `eval` both work. Neither part contains a quote.
      return `AZURE_STORAGE_CONNECTION_STRING='${text}'`;
    case "docker":
      // For `docker run --env-file`, which takes quotes literally.
      return `AZURE_STORAGE_CONNECTION_STRING=${text}`;
    case "dotnet":
      return JSON.stringify({ ConnectionStrings: { AzureStorage: text } }, null, 2);
    case "json": {
      const [key = ""] = keysOf(account);
      const endpoints = Object.entries(urls).map(([name, url]) => [name, `${url}/${account.name}`]);
      const facts = { connectionString: text, account: account.name, key };
      return JSON.stringify({ ...facts, endpoints: Object.fromEntries(endpoints) }, null, 2);
    }
  }
}

/** The connection string of one account, for official clients, with the endpoints that are served. */
export function connectionString(urls: RunningServer["urls"], account: Account): string {
  const { table, queue, blob } = urls;
  const { name } = account;
  const [key = ""] = keysOf(account);
  const [url = ""] = [table, queue, blob].filter((each) => each !== undefined);
  const parts = [
    `DefaultEndpointsProtocol=${new URL(url).protocol.slice(0, -1)}`,
    `AccountName=${name}`,
    `AccountKey=${key}`,
  ];
  if (table !== undefined) parts.push(`TableEndpoint=${table}/${name}`);
  if (queue !== undefined) parts.push(`QueueEndpoint=${queue}/${name}`);
  if (blob !== undefined) parts.push(`BlobEndpoint=${blob}/${name}`);
  return parts.join(";");
}

/** In base64. */
function keysOf({ keys }: Account): string[] {
  return keys.map((key) => Buffer.from(key).toString("base64"));
}
