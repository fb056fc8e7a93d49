import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/account-settings";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { type RunningServer, type ServerOptions, startServer } from "@rowhouse/server/server";

export interface LocalServer {
  /** `http://127.0.0.1:PORT`, of the table service if that is served. */
  readonly url: string;
  readonly urls: RunningServer["urls"];
  close(): Promise<void>;
}

/** A Rowhouse of this process, in memory and for the development account unless told otherwise. */
export async function startLocalServer(options: Partial<ServerOptions> = {}): Promise<LocalServer> {
  const server = await startServer({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine: new MemoryEngine(),
    listen: { table: { host: "127.0.0.1", port: 0 } },
    ...options,
  });
  const { urls } = server;
  return { url: urls.table ?? "", urls, close: () => server.close() };
}
