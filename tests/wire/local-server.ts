import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { type RunningServer, type ServerOptions, startServer } from "@rowhouse/server/server";
import { openTestEngine } from "../support/test-engine.ts";

export interface LocalServer {
  /** `http://127.0.0.1:PORT`, of the table service if that is served. */
  readonly url: string;
  readonly urls: RunningServer["urls"];
  close(): Promise<void>;
}

/** A Rowhouse in this process, by default over the test engine and for the development account. */
export async function startLocalServer(options: Partial<ServerOptions> = {}): Promise<LocalServer> {
  const server = await startServer({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine: options.engine ?? (await openTestEngine()),
    listen: { table: { host: "127.0.0.1", port: 0 } },
    ...options,
  });
  const { urls } = server;
  return { url: urls.table ?? "", urls, close: () => server.close() };
}
