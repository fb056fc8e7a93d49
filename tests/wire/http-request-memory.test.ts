import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { RequestMemory } from "@rowhouse/server/http/request-memory";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { KEY, StorageWire } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";
import { until } from "./turns.ts";

const { name } = DEVELOPMENT_ACCOUNT;
const LARGE = 500_000;
const SMALL = 20_000;

for (const lane of ["node", "fast"] as const) {
  describe(`Large bodies (${lane})`, () => {
    /** Enough for one of the large bodies. */
    const room = new RequestMemory(2 * LARGE);
    let server: LocalServer;
    let wire: TableWire;
    const insertion = (rowKey: string, bytes: number) => {
      const texts = Object.fromEntries(
        Array.from({ length: 20 }, (_, i) => [`Text${i}`, "x".repeat(bytes / 20)]),
      );
      return wire.bytes("POST", "/Large", {
        body: { PartitionKey: "p", RowKey: rowKey, ...texts },
      });
    };
    const open = () => HttpConnection.open(new URL(server.url));

    before(async () => {
      const any = { host: "127.0.0.1", port: 0 };
      const listen = { blob: any, table: any };
      server = await startLocalServer({ lane, requestMemory: room, listen });
      wire = new TableWire({ url: `${server.url}/${name}`, account: name, key: KEY });
      await wire.send("POST", "/Tables", { body: { TableName: "Large" } });
    });
    after(async () => {
      wire.close();
      await server.close();
    });

    it("that find no room are refused with ServerBusy, and accepted again once there is room", async () => {
      const [first, second] = [await open(), await open()];
      const bytes = insertion("first", LARGE);
      first.write(bytes.subarray(0, LARGE / 2));
      await until(() => room.bytes > 0);
      second.write(insertion("second", LARGE));
      const refused = await second.answer();
      assert.equal(refused.status, 503);
      assert.match(refused.body.toString(), /"code":"ServerBusy"/);
      second.write(insertion("small", SMALL));
      assert.equal((await second.answer()).status, 201);
      first.write(bytes.subarray(LARGE / 2));
      assert.equal((await first.answer()).status, 201);
      second.write(insertion("second", LARGE));
      assert.equal((await second.answer()).status, 201);
      assert.equal(room.bytes, 0);
      first.destroy();
      second.destroy();
    });

    it("release their room when their client disconnects", async () => {
      const connection = await open();
      connection.write(insertion("left", LARGE).subarray(0, LARGE / 2));
      await until(() => room.bytes > 0);
      connection.destroy();
      await until(() => room.bytes === 0);
    });

    it("in chunks reserve room for the longest body allowed, and are refused without it", async () => {
      const connection = await open();
      connection.write(inChunks(insertion("long", LARGE)));
      assert.equal((await connection.answer()).status, 503);
      assert.equal(room.bytes, 0);
      connection.write(insertion("behind", SMALL));
      assert.equal((await connection.answer()).status, 201);
      connection.destroy();
    });

    it("arrive whole in chunks if there is room", async () => {
      const roomy = await startLocalServer({ lane });
      const connection = await HttpConnection.open(new URL(roomy.url));
      const there = new TableWire({ url: `${roomy.url}/${name}`, account: name, key: KEY });
      await there.send("POST", "/Tables", { body: { TableName: "Large" } });
      connection.write(inChunks(insertion("long", LARGE)));
      const inserted = await connection.answer();
      assert.equal(inserted.status, 201);
      const { Text0, Text19 } = inserted.json() as Record<string, string>;
      assert.deepEqual([Text0, Text19], ["x".repeat(LARGE / 20), "x".repeat(LARGE / 20)]);
      connection.destroy();
      there.close();
      await roomy.close();
    });

    it("include lists of blocks, which are streamed but held in memory", async () => {
      const url = server.urls.blob ?? "";
      const wire = new StorageWire(url, "application/xml");
      await wire.send("PUT", "/docs?restype=container");
      const first = await HttpConnection.open(new URL(url));
      const body = `<BlockList>${" ".repeat(LARGE)}</BlockList>`;
      const list = wire.bytes("PUT", "/docs/blob?comp=blocklist", { body });
      first.write(list.subarray(0, LARGE / 2));
      await until(() => room.bytes > 0);
      const larger = { body: body.padEnd(2 * LARGE) };
      assert.equal((await wire.send("PUT", "/docs/blob?comp=blocklist", larger)).status, 503);
      first.write(list.subarray(LARGE / 2));
      assert.equal((await first.answer()).status, 201);
      assert.equal(room.bytes, 0);
      first.destroy();
      wire.close();
    });

    it("do not include short ones in chunks, which need no room", async () => {
      const connection = await open();
      for (const bytes of [SMALL, 240_000]) {
        connection.write(inChunks(insertion(`short ${bytes}`, bytes)));
        assert.equal((await connection.answer()).status, 201);
      }
      connection.destroy();
    });

    it("in tiny chunks use little more memory than their length", async () => {
      const connection = await open();
      const bytes = insertion("crumbs", 200_000);
      const before = memoryInUse();
      const request = inChunks(bytes, 1);
      let bytesRead = () => 0;
      const note = (message: unknown) => {
        assert.ok(message instanceof Object && "socket" in message);
        const { socket } = message;
        assert.ok(socket instanceof Socket);
        bytesRead = () => socket.bytesRead;
      };
      subscribe("http.server.request.start", note);
      connection.write(request.subarray(0, -20));
      await until(() => bytesRead() === request.length - 20);
      unsubscribe("http.server.request.start", note);
      assert.ok(memoryInUse() - before < 5_000_000);
      connection.write(request.subarray(-20));
      assert.equal((await connection.answer()).status, 201);
      connection.destroy();
    });

    it("reserve no room if the request is refused for its signature", async () => {
      const connection = await open();
      const bytes = insertion("refused", LARGE).toString("latin1");
      connection.write(Buffer.from(bytes.replace(/SharedKeyLite .*/, "$&A"), "latin1"));
      assert.equal((await connection.answer()).status, 403);
      assert.equal(room.bytes, 0);
      connection.destroy();
    });
  });
}

/** The same request with its body in chunks. */
function inChunks(request: Buffer, chunkBytes = 100_000): Buffer {
  const [head = "", body = ""] = request.toString("latin1").split("\r\n\r\n");
  const chunked = head.replace(/Content-Length: \d+/, "Transfer-Encoding: chunked");
  const chunks = body.match(new RegExp(`.{1,${chunkBytes}}`, "gs")) ?? [];
  const sized = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  return Buffer.from(`${chunked}\r\n\r\n${sized.join("")}0\r\n\r\n`, "latin1");
}

function memoryInUse(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
