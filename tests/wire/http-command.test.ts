import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TableClient } from "@azure/data-tables";
import { selfSignedCertificate } from "../support/certificate.ts";
import { ROWHOUSE, RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { HttpConnection } from "./http-connection.ts";
import { readRefusal } from "./refusals.ts";
import { TableWire } from "./table-wire.ts";

const LISTENING = /^Azurite Table service is successfully listening at (\S+)$/m;
const FREE = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];
const KEY = "c29tZSBrZXk=";
const OTHER_KEY = "YW5vdGhlciBrZXk=";

async function get(url: string, path: string): Promise<HttpAnswer> {
  const connection = await HttpConnection.open(new URL(url));
  connection.write(`GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`);
  const answer = await connection.answer();
  connection.destroy();
  return answer;
}

describe("rowhouse", () => {
  it("prints the lines that test containers wait for, serves AZURITE_ACCOUNTS, logs by request id, and keeps its data", async () => {
    await withFolder(async (folder) => {
      const accounts = { AZURITE_ACCOUNTS: `first1:${KEY};second:${OTHER_KEY}:${KEY}` };
      const log = join(folder, "logs", "debug.log");
      // Every flag that users of the emulator pass.
      const flags = [
        ...FREE,
        "--tableHost",
        "127.0.0.1",
        "-L",
        "--skipApiVersionCheck",
        "--disableTelemetry",
        "--tableKeepAliveTimeout",
        "9",
      ];
      const location = join(folder, "data");
      const server = new RowhouseCommand(["--location", location, ...flags, "-d", log], accounts);
      const [, url = ""] = await server.until(LISTENING);
      assert.match(
        server.stdout,
        /^Azurite Table service is starting at http:\/\/127\.0\.0\.1:0$/m,
      );
      for (const name of ["Queue", "Blob"]) {
        await server.until(
          new RegExp(`^Azurite ${name} service is successfully listening at http://`, "m"),
        );
      }

      assert.deepEqual((await get(url, "/healthz")).json(), { status: "ok" });
      const ready = (await get(url, "/readyz")).json() as { status: string; engine: string };
      assert.deepEqual([ready.status, ready.engine], ["ready", "lmdb"]);

      const wires = [
        ["first1", KEY],
        ["second", OTHER_KEY],
        ["second", KEY],
      ].map(
        ([account = "", key = ""]) => new TableWire({ url: `${url}/${account}`, account, key }),
      );
      for (const wire of wires.slice(0, 2)) {
        assert.equal(
          (await wire.send("POST", "/Tables", { body: { TableName: "Kept" } })).status,
          201,
        );
      }
      assert.equal((await wires[2]!.send("GET", "/Tables('Kept')")).status, 200);
      assert.equal((await get(url, "/devstoreaccount1/Tables")).status, 404);

      const refused = await wires[0]!.send("GET", "/Kept?$filter=%28&sig=secret", {
        headers: { "x-ms-client-request-id": "mine" },
      });
      readRefusal(refused);
      for (const wire of wires) wire.close();
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0);
      const lines = readFileSync(log, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      const found = lines.find(({ requestId }) => requestId === refused.header("x-ms-request-id"));
      assert.equal(found?.operation, "QueryEntities");
      assert.equal(found?.status, 400);
      assert.equal(found?.errorCode, "InvalidInput");
      assert.equal(found?.clientRequestId, "mine");
      assert.equal(found?.account, "first1");
      // Neither keys nor signatures.
      assert.doesNotMatch(
        readFileSync(log, "utf8") + server.stdout + server.stderr,
        /secret|c29tZSBrZXk|YW5vdGhlciBrZXk/,
      );

      const again = new RowhouseCommand(
        ["serve", "--location", location, ...FREE, "--silent"],
        accounts,
      );
      const [, newUrl = ""] = await again.until(LISTENING);
      const wire = new TableWire({ url: `${newUrl}/first1`, account: "first1", key: KEY });
      assert.equal((await wire.send("GET", "/Tables('Kept')")).status, 200);
      // A feature that is not implemented is answered, not logged as a fault.
      assert.equal((await wire.send("GET", "/Kept?$orderby=a")).status, 501);
      wire.close();
      again.signal("SIGINT");
      assert.equal(await again.exited, 0);
      assert.equal(again.stderr, "");
    });
  });

  it("logs every request to the file of --debug even with --silent", async () => {
    await withFolder(async (folder) => {
      const log = join(folder, "debug.log");
      const flags = ["--silent", "--inMemoryPersistence", ...FREE, "--debug", log];
      const server = new RowhouseCommand(flags);
      const [, url = ""] = await server.until(LISTENING);
      assert.equal((await get(url, "/devstoreaccount1/Tables")).status, 403);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0);
      assert.equal(server.stderr, "");
      // It names what is stored, which is nobody else's business.
      assert.equal(statSync(log).mode & 0o777, 0o600);
      assert.match(readFileSync(log, "utf8"), /"path":"\/devstoreaccount1\/Tables","status":403/);
    });
  });

  it("keeps serving when its log file and standard output cannot be written", async () => {
    await withFolder(async (folder) => {
      const ask = `
        const [, url] = /TableEndpoint=([^;]*)/.exec(process.env.AZURE_STORAGE_CONNECTION_STRING);
        const ask = () => fetch(url + "/Tables").then(({ status }) => status);
        ask().then(ask).then((status) => console.error("answered", status));`;
      const command = [...ROWHOUSE, "--inMemoryPersistence", ...FREE];
      const commandLine = ["--", process.execPath, "--eval", ask];
      // Files that this process writes must stay empty.
      const script = `trap '' XFSZ; ulimit -f 0; exec "$@" >${join(folder, "out")}`;
      for (const debug of [["--debug"], ["--debug", join(folder, "log")]]) {
        const { status, stderr } = spawnSync(
          "sh",
          ["-c", script, "sh", process.execPath, ...command, ...debug, ...commandLine],
          { encoding: "utf8", env: { ...process.env, AZURITE_ACCOUNTS: "" } },
        );
        assert.match(stderr, /^answered 403$/m);
        assert.match(stderr, /^rowhouse: cannot write to standard output: EFBIG/m);
        assert.equal(status, 0);
      }
    });
  });

  it("serves over TLS, and ends at SIGTERM although a client stays connected", async () => {
    await withFolder(async (folder) => {
      const { cert, key } = selfSignedCertificate(new Date());
      mkdirSync(join(folder, "tls"));
      writeFileSync(join(folder, "tls", "cert.pem"), cert);
      writeFileSync(join(folder, "tls", "key.pem"), key);
      const tls = [
        "--cert",
        join(folder, "tls", "cert.pem"),
        "--key",
        join(folder, "tls", "key.pem"),
      ];
      const server = new RowhouseCommand([
        "--inMemoryPersistence",
        ...FREE,
        ...tls,
        "--oauth",
        "basic",
        "--disableProductStyleUrl",
      ]);
      const [, url = ""] = await server.until(LISTENING);
      assert.match(url, /^https:\/\//);
      await server.until(/no issuer/, "stderr");
      const connection = await HttpConnection.open(new URL(url), cert);
      connection.write("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
      assert.equal((await connection.answer()).status, 200);
      server.signal("SIGTERM");
      await server.until(/shutting down: finishing requests in progress/, "stderr");
      await connection.rest();
      assert.equal(await server.exited, 0);
      connection.destroy();
      await assert.rejects(HttpConnection.open(new URL(url), cert));
    });
  });

  it("waits for requests in progress at the first signal, and ends immediately at a second, different one", async () => {
    const server = new RowhouseCommand(["--inMemoryPersistence", ...FREE]);
    const [, url = ""] = await server.until(LISTENING);
    const connection = await HttpConnection.open(new URL(url));
    connection.write(
      "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{",
    );
    // A later request is answered, so the head of the first has been read.
    assert.equal((await get(url, "/healthz")).status, 200);
    server.signal("SIGINT");
    await server.until(/shutting down: finishing requests in progress/, "stderr");
    server.signal("SIGTERM");
    // It was ended by the signal itself.
    assert.equal(await server.exited, null);
    assert.doesNotMatch(server.stderr, /"msg":"closed"/);
    connection.destroy();
  });

  it("does not start with invalid accounts, and reports why without printing their keys", async () => {
    const command = new RowhouseCommand(["--inMemoryPersistence", ...FREE], {
      AZURITE_ACCOUNTS: "first1:not base64!",
    });
    assert.equal(await command.exited, 2);
    assert.match(command.stderr, /Key 1 of account "first1" has 11 characters and is not base64/);
    assert.doesNotMatch(command.stderr, /not base64!|\n {4}at /);
  });

  it("does not start on a port that is in use", async () => {
    const first = new RowhouseCommand(["--inMemoryPersistence", ...FREE]);
    try {
      const [, url = ""] = await first.until(LISTENING);
      const { port } = new URL(url);
      const second = new RowhouseCommand(["--inMemoryPersistence", ...FREE, "--tablePort", port]);
      assert.equal(await second.exited, 2);
      assert.match(second.stderr, /rowhouse cannot start: .*EADDRINUSE/);
      // The first one keeps serving.
      const options = { allowInsecureConnection: true };
      const connection = `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;TableEndpoint=${url}/devstoreaccount1`;
      await TableClient.fromConnectionString(connection, "Still", options).createTable();
    } finally {
      first.signal("SIGTERM");
    }
    assert.equal(await first.exited, 0);
  });

  it("ends with exit code 2 if its workers cannot start", () =>
    withFolder(async (folder) => {
      const taken = createServer().listen(0, "127.0.0.1");
      await once(taken, "listening");
      const address = taken.address();
      assert.ok(typeof address === "object" && address !== null);
      const flags = ["--workers", "2", "--tableOnly", "--tablePort", String(address.port)];
      const command = new RowhouseCommand(["--location", folder, ...flags]);
      assert.equal(await command.exited, 2);
      assert.match(command.stderr, /rowhouse cannot start: .*EADDRINUSE/);
      taken.close();
    }));
});
