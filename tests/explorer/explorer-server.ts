import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { systemClock } from "@rowhouse/server/clock";
import { BulkJobs } from "@rowhouse/server/explorer/bulk-jobs";
import {
  type ExplorerAsset,
  type ExplorerOptions,
  ExplorerPage,
} from "@rowhouse/server/explorer/explorer-page";
import type { PageRequest } from "@rowhouse/server/http/pages";
import { type RunningServer, type ServerOptions, startServer } from "@rowhouse/server/server";
import { openTestEngine } from "../support/test-engine.ts";
import type { HttpAnswer } from "../wire/http-answer.ts";
import { HttpConnection } from "../wire/http-connection.ts";
import { KEY } from "../wire/storage-wire.ts";

export const NAME = DEVELOPMENT_ACCOUNT.name;
export const OWNER = { account: NAME, key: KEY };
export const LINK = "the-link-of-this-start";

export interface ExplorerServer {
  readonly url: string;
  readonly host: string;
  /** As the page would: from its own origin. `headers` replace those; undefined leaves one out. */
  ask(verb: string, path: string, call?: Asked): Promise<HttpAnswer>;
  /** Logs in and returns the session as it was answered. */
  logIn(credential: object): Promise<{ token: string } & Record<string, unknown>>;
  /** A request through the gateway. */
  wire(token: string, verb: string, path: string, call?: Asked): Promise<HttpAnswer>;
  close(): Promise<void>;
}

export interface Asked {
  readonly body?: string | object;
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export const LOCAL = { host: "127.0.0.1", port: 0 };

/** A server in this process with the explorer on its table port. */
export async function startExplorer(
  options: Partial<ExplorerOptions> = {},
  listen: ServerOptions["listen"] = { table: LOCAL },
): Promise<ExplorerServer> {
  const accounts = options.accounts ?? new Accounts([DEVELOPMENT_ACCOUNT]);
  let running: RunningServer | undefined;
  const engine = await openTestEngine();
  const onError = (error: unknown) => {
    throw error;
  };
  const jobs = new BulkJobs({ engine, clock: systemClock, onError });
  let link: string | undefined = LINK;
  let page: ExplorerPage | undefined;
  const answer = (request: PageRequest) => {
    page ??= new ExplorerPage({
      accounts,
      clock: systemClock,
      handle: running!.handles.get("table")!,
      others: { queue: running!.handles.get("queue"), blob: running!.handles.get("blob") },
      assets: PAGE,
      isReadOnly: false,
      hosts: [],
      jobs,
      takeLink(token) {
        const isRight = token === link;
        if (isRight) link = undefined;
        return isRight;
      },
      ...options,
    });
    return page.answer(request);
  };
  const methods = { GET: answer, POST: answer, PUT: answer, DELETE: answer };
  running = await startServer({
    accounts,
    engine,
    listen,
    background: [{ start() {}, close: () => jobs.close() }],
    pages: [{ path: "/_rowhouse/", methods }],
  });
  const url = running.urls.table!;
  const { host } = new URL(url);
  const ask = async (verb: string, path: string, { body, headers }: Asked = {}) => {
    const text = typeof body === "object" ? JSON.stringify(body) : (body ?? "");
    const sent = {
      Host: host,
      Origin: url,
      "Sec-Fetch-Site": "same-origin",
      ...(text !== "" && { "Content-Length": String(Buffer.byteLength(text)) }),
      ...headers,
    };
    const lines = Object.entries(sent).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}: ${value}\r\n`],
    );
    const connection = await HttpConnection.open(new URL(url));
    connection.write(`${verb} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${text}`);
    const answered = await connection.answer({ head: verb === "HEAD" });
    connection.destroy();
    return answered;
  };
  return {
    url,
    host,
    ask,
    async logIn(credential) {
      const answered = await ask("POST", "/_rowhouse/api/v1/session", { body: credential });
      if (answered.status !== 200) throw new Error(`${answered.status} ${answered.text}`);
      return answered.json() as { token: string };
    },
    wire: (token, verb, path, { body, headers } = {}) =>
      ask(verb, `/_rowhouse/api/v1/wire/${path}`, {
        ...(body !== undefined && { body }),
        headers: {
          Authorization: `Bearer ${token}`,
          Accept: "application/json;odata=nometadata",
          "Content-Type": "application/json",
          ...headers,
        },
      }),
    close: () => running.close(),
  };
}

/** A server with a session of its account's owner, and a table Films of these entities. */
export async function startWithFilms(
  films: readonly object[],
): Promise<{ readonly server: ExplorerServer; readonly token: string }> {
  const server = await startExplorer();
  const { token } = await server.logIn(OWNER);
  await server.wire(token, "POST", `${NAME}/Tables`, { body: { TableName: "Films" } });
  for (const body of films) await server.wire(token, "POST", `${NAME}/Films`, { body });
  return { server, token };
}

/** The page before it is built: enough to be served. */
const PAGE: ReadonlyMap<string, ExplorerAsset> = new Map([
  [
    "index.html",
    {
      type: "text/html; charset=utf-8",
      gzip: gzipSync(
        readFileSync(fileURLToPath(new URL("../../explorer/src/index.html", import.meta.url))),
      ),
    },
  ],
]);
