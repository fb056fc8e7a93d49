import { TableServiceClient } from "@azure/data-tables";
import { QueueServiceClient } from "@azure/storage-queue";
import { connect, type Database } from "@rowhouse/patterns";
import { azureQueues, singleTry } from "@rowhouse/patterns/azure-queues";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { transformSync } from "esbuild";
import { RowhouseCommand } from "../../support/rowhouse-command.ts";
import { startLocalServer } from "../../wire/local-server.ts";
import { KEY } from "../../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";

/** A server in this process, a database on it, and the command configured to use it. */
export interface CommandAccount {
  /** Registers no index. */
  readonly database: Database;
  /** Moves the server's clock forward, so that written rows become old. */
  pass(ms: number): void;
  run(...args: string[]): Promise<Ran>;
  start(...args: string[]): RowhouseCommand;
}

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export async function withAccount(work: (account: CommandAccount) => Promise<void>): Promise<void> {
  let offset = 0;
  const here = { host: "127.0.0.1", port: 0 };
  const server = await startLocalServer({
    clock: { now: () => Date.now() + offset },
    listen: { table: here, queue: here },
  });
  const { table, queue } = server.urls;
  const connection = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${table}/${ACCOUNT};QueueEndpoint=${queue}/${ACCOUNT}`;
  const insecure = { allowInsecureConnection: true };
  const database = connect({
    tables: azureTables(TableServiceClient.fromConnectionString(connection, insecure)),
    queues: azureQueues(QueueServiceClient.fromConnectionString(connection, singleTry)),
    // Otherwise it would register its indexes as readable, and the command would have none to build.
    indexStates: "trusted",
  });
  const environment = { AZURE_STORAGE_CONNECTION_STRING: connection };
  try {
    await work({
      database,
      pass: (ms) => {
        offset += ms;
      },
      run: (...args) => run(args, environment),
      start: (...args) => new RowhouseCommand(["patterns", ...args], environment),
    });
  } finally {
    await server.close();
  }
}

/** A module in JavaScript, which the command loads in a third of the time that it needs for TypeScript. */
export function compiled(typescript: string): string {
  return transformSync(typescript, { loader: "ts" }).code;
}

/** Runs `rowhouse patterns` with these arguments. */
export async function run(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const command = new RowhouseCommand(["patterns", ...args], environment);
  const code = await command.exited;
  return { code, stdout: command.stdout, stderr: command.stderr };
}
