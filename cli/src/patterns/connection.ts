import type { Database, Layer } from "@rowhouse/patterns";
import { type Command, Option } from "commander";
import { assertReachable, tableUrlOf } from "../reachable.ts";
import type { Library } from "./library.ts";
import type { Progress } from "./outcome.ts";

const PROFILES = ["azure", "cosmos", "azurite", "rowhouse"] as const;

export interface ConnectionOptions {
  readonly connection?: string;
  readonly profile: (typeof PROFILES)[number];
}

export function addConnectionOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--connection <string>",
        "the account's connection string; UseDevelopmentStorage=true for a server on this machine",
      ).env("AZURE_STORAGE_CONNECTION_STRING"),
    )
    .addOption(
      new Option("--profile <kind>", "the kind of endpoint").choices(PROFILES).default("azure"),
    )
    .option("--json", "print JSON");
}

/** Undefined also if it is empty, as from an unset variable of a script. */
export function connectionOf({ connection = "" }: ConnectionOptions): string | undefined {
  return connection.trim() === "" ? undefined : connection;
}

export interface Watching {
  readonly queues?: boolean;
  /** Once aborted, no more requests are sent, and waits end. */
  readonly signal: AbortSignal;
  readonly progress: Progress;
}

/** @throws Error if no connection is given, or a client is not installed. */
export async function openDatabase(
  library: Library,
  options: ConnectionOptions,
  { queues, signal, progress }: Watching,
): Promise<Database> {
  const connection = connectionOf(options);
  if (connection === undefined) {
    throw new Error(
      "No account is named: pass --connection STRING, or set AZURE_STORAGE_CONNECTION_STRING.",
    );
  }
  const { connect } = await library.load("@rowhouse/patterns");
  const { TableServiceClient } = await library.load("@azure/data-tables");
  const { azureTables } = await library.load("@rowhouse/patterns/azure-tables");
  const { controlledIndexes } = await library.load("@rowhouse/patterns/index-states");
  const allowInsecureConnection = /http:|UseDevelopmentStorage/i.test(connection);
  const client = clientFrom("table", () =>
    TableServiceClient.fromConnectionString(connection, { allowInsecureConnection }),
  );
  const url = tableUrlOf(connection);
  if (url) await assertReachable(url);
  const database = connect({
    tables: azureTables(client, { profile: options.profile }),
    indexStates: controlledIndexes({ unregistered: "readable" }),
    meter: watch(progress),
    ...(queues && { queues: await openQueues(library, connection) }),
  });
  return database.until(signal);
}

async function openQueues(library: Library, connection: string) {
  const { QueueServiceClient } = await library.load("@azure/storage-queue");
  const { azureQueues, singleTry } = await library.load("@rowhouse/patterns/azure-queues");
  return azureQueues(
    clientFrom("queue", () => QueueServiceClient.fromConnectionString(connection, singleTry)),
  );
}

/** @throws Error that does not repeat the string, which may contain a key. */
function clientFrom<Client>(service: "table" | "queue", create: () => Client): Client {
  try {
    return create();
  } catch (cause) {
    throw new Error(
      `--connection (or AZURE_STORAGE_CONNECTION_STRING) is not a connection string with a ${service} endpoint, such as UseDevelopmentStorage=true or DefaultEndpointsProtocol=https;AccountName=NAME;AccountKey=KEY;EndpointSuffix=core.windows.net.`,
      { cause },
    );
  }
}

const TOLD_EACH_MS = 2000;

/** Reports the number of requests as progress. */
function watch(progress: Progress): Layer {
  let count = 0;
  let toldAt = Date.now();
  return (_call, send) => {
    count++;
    const now = Date.now();
    if (now - toldAt >= TOLD_EACH_MS) {
      toldAt = now;
      progress(`${count} requests`);
    }
    return send();
  };
}
