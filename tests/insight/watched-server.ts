import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import type { ServerOptions } from "@rowhouse/server/server";
import { startLocalServer } from "../wire/local-server.ts";
import { TableWire } from "../wire/table-wire.ts";

export interface WatchedServer {
  /** The service's address, without an account. */
  readonly url: string;
  readonly accountUrl: string;
  readonly wire: TableWire;
}

/** Runs work with a server in this process and a client of its development account. */
export async function withServer(
  options: Partial<ServerOptions>,
  work: (server: WatchedServer) => Promise<void>,
): Promise<void> {
  const server = await startLocalServer(options);
  const account = DEVELOPMENT_ACCOUNT.name;
  const key = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
  const accountUrl = `${server.url}/${account}`;
  const wire = new TableWire({ url: accountUrl, account, key });
  try {
    await work({ url: server.url, accountUrl, wire });
  } finally {
    wire.close();
    await server.close();
  }
}

/** Creates a table and inserts entities. */
export async function fillTable(
  wire: TableWire,
  table: string,
  entities: readonly object[],
): Promise<void> {
  await wire.send("POST", "/Tables", { body: { TableName: table } });
  for (const body of entities) {
    const answer = await wire.send("POST", `/${table}`, { body });
    if (answer.status !== 201) throw new Error(String(answer));
  }
}
