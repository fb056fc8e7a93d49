import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import type { HttpAnswer } from "./http-answer.ts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { KEY, sign, stringToSign, VERSION } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";

const NAME = DEVELOPMENT_ACCOUNT.name;
const PAGES = ["/healthz", "/readyz"];
const METRICS = "/_rowhouse/metrics";

let server: LocalServer;
before(async () => {
  const any = { host: "127.0.0.1", port: 0 };
  server = await startLocalServer({
    listen: { table: any, queue: any, blob: any },
    pages: [
      { path: METRICS, methods: { GET: () => ({ status: 200, headers: [], body: "up 1\n" }) } },
    ],
  });
});
after(() => server.close());

describe("Operational pages next to a service", () => {
  it("answer GET and HEAD, and refuse every other method", async () => {
    for (const path of [...PAGES, METRICS]) {
      assert.equal((await send(server.url, "GET", path, "h")).status, 200, path);
      const head = await send(server.url, "HEAD", path, "h");
      assert.deepEqual([head.status, head.body.length], [200, 0], path);
      for (const verb of ["PUT", "POST", "DELETE", "OPTIONS"]) {
        const refused = await send(server.url, verb, path, "h");
        assert.deepEqual([refused.status, refused.header("allow")], [405, "GET, HEAD"], path);
      }
    }
  });

  it("do not hide tables of the same name if the host names the account", async () => {
    const host = `${NAME}.table.localhost`;
    const wire = new TableWire({ url: server.url, account: NAME, key: KEY });
    const headers = { Host: host };
    for (const path of PAGES) {
      const body = { TableName: path.slice(1) };
      assert.equal((await wire.send("POST", "/Tables", { body, headers })).status, 201);
      const entity = { PartitionKey: "p", RowKey: "r" };
      assert.equal((await wire.send("POST", path, { body: entity, headers })).status, 201, path);
      const found = await wire.send("GET", path, { headers });
      assert.equal(found.items().length, 1, path);
    }
    wire.close();
  });

  it("do not hide queues and blobs of the same name there", async () => {
    const { queue = "", blob = "" } = server.urls;
    for (const [url, service] of [
      [queue, "queue"],
      [blob, "blob"],
    ] as const) {
      const host = `${NAME}.${service}.localhost`;
      const ofBlob = service === "blob";
      if (ofBlob) await send(url, "PUT", "/$root?restype=container", host);
      for (const path of PAGES) {
        const made = await send(url, "PUT", path, host, ofBlob ? BLOCK_BLOB : {});
        assert.equal(made.status, 201, `${service} ${path}: ${made}`);
        const asked = ofBlob ? path : `${path}?comp=metadata`;
        assert.equal((await send(url, "GET", asked, host)).status, 200, `${service} ${path}`);
        const gone = await send(url, "DELETE", path, host);
        assert.equal(gone.status, ofBlob ? 202 : 204, `${service} ${path}`);
      }
    }
  });
});

const BLOCK_BLOB = { "x-ms-blob-type": "BlockBlob" };

/** One request on its own connection, signed for the account. */
async function send(
  url: string,
  verb: string,
  target: string,
  host: string,
  more: Readonly<Record<string, string>> = {},
): Promise<HttpAnswer> {
  const headers: Record<string, string> = {
    Host: host,
    "x-ms-version": VERSION,
    "x-ms-date": new Date().toUTCString(),
    "Content-Length": "0",
    ...more,
  };
  const signature = sign(KEY, stringToSign(verb, target, headers));
  headers.Authorization = `SharedKey ${NAME}:${signature}`;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const connection = await HttpConnection.open(new URL(url));
  try {
    connection.write(`${verb} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`);
    return await connection.answer({ head: verb === "HEAD" });
  } finally {
    connection.destroy();
  }
}
