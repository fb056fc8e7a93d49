import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { startServer } from "@rowhouse/server/server";
import { parseTableEndpoint, TableConnection } from "./table-endpoint.ts";

export interface TableServer extends AsyncDisposable {
  readonly url: string;
  connect(signal?: AbortSignal): TableConnection;
}

/** For tests: a server with the development account, over memory. */
export async function startTableServer(): Promise<TableServer> {
  const server = await startServer({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine: new MemoryEngine(),
    listen: { table: { host: "127.0.0.1", port: 0 } },
  });
  const url = `${server.urls.table}/${DEVELOPMENT_ACCOUNT.name}`;
  const endpoint = parseTableEndpoint(url, {});
  return {
    url,
    connect: (signal) => new TableConnection({ endpoint, ...(signal && { signal }) }),
    [Symbol.asyncDispose]: () => server.close(),
  };
}
