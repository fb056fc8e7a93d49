import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { PeerMemory } from "@rowhouse/server/http/peer-memory";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { KEY, StorageWire } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";
import { turns, until } from "./turns.ts";

const { name } = DEVELOPMENT_ACCOUNT;
const LARGE = 500_000;
const SMALL = 20_000;
const MIB = 1 << 20;

for (const lane of ["node", "fast"] as const) {
  describe(`Large bodies (${lane})`, () => {
    /** Half of it is for one account, and enough for one of the large bodies. */
    const room = new PeerMemory({ bytesMax: 2 * 1.5 * LARGE, sweeps: false });
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
      server = await startLocalServer({ lane, memory: room, listen });
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

    it("count as they arrive, not as they are announced", async () => {
      const connections = await Promise.all(Array.from({ length: 10 }, open));
      const bytes = insertion("announced", LARGE);
      for (const connection of connections) {
        connection.write(bytes.subarray(0, 10_000));
      }
      await until(() => room.bytes >= 10 * 9_000);
      assert.ok(room.bytes <= 10 * 40_000, `${room.bytes}`);
      for (const connection of connections) connection.destroy();
      await until(() => room.bytes === 0);
    });

    it("that have stopped arriving make room for another client's", async () => {
      const stopped = await open();
      stopped.write(insertion("stopped", LARGE).subarray(0, LARGE / 2));
      await until(() => room.bytes >= LARGE / 2);
      await turns(20);
      // Seconds without a byte.
      for (let i = 0; i < 20; i++) room.sweep();
      const other = await open();
      other.write(insertion("other", LARGE));
      assert.equal((await other.answer()).status, 201);
      await assert.rejects(stopped.answer(), /The connection ended/);
      other.destroy();
    });

    it("that trickle in more slowly than the minimum rate end their connection", async () => {
      const connection = await open();
      const bytes = insertion("trickle", LARGE);
      connection.write(bytes.subarray(0, 2_000));
      await until(() => room.bytes > 0);
      for (let i = 0; i < 100; i++) {
        connection.write(bytes.subarray(2_000 + i * 100, 2_100 + i * 100));
        await turns(5);
        room.sweep();
      }
      await assert.rejects(connection.answer(), /The connection ended/);
      await until(() => room.bytes === 0);
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

    it("and downloads that nobody reads share the room, and the slowest are cut", async () => {
      const roomy = new PeerMemory({ bytesMax: 16 * MIB, sweeps: false });
      const listen = { blob: { host: "127.0.0.1", port: 0 } };
      const shared = await startLocalServer({ lane, memory: roomy, listen });
      const url = shared.urls.blob ?? "";
      const wire = new StorageWire(url, "application/octet-stream");
      const open = { "x-ms-blob-public-access": "container" };
      await wire.send("PUT", "/docs?restype=container", { headers: open });
      const content = Buffer.alloc(16 * MIB, "content");
      const put = { body: content, headers: { "x-ms-blob-type": "BlockBlob" } };
      assert.equal((await wire.send("PUT", "/docs/large", put)).status, 201);
      const unread: HttpConnection[] = [];
      for (let i = 0; i < 20; i++) {
        const connection = await HttpConnection.open(new URL(url));
        connection.socket.pause();
        unread.push(connection);
      }
      for (const connection of unread) {
        connection.write(`GET /${name}/docs/large HTTP/1.1\r\nHost: h\r\n\r\n`);
      }
      await until(() => {
        roomy.sweep();
        return roomy.counts.cutForRoom + roomy.counts.cutForRate > 0;
      });
      assert.ok(roomy.bytes <= 8 * MIB, `${roomy.bytes}`);
      // Another's is begun when one of them is cut for it.
      let length = 0;
      const other = wire.send("GET", "/docs/large").then(({ body }) => (length = body.length));
      await until(() => {
        roomy.sweep();
        return length > 0;
      });
      assert.equal(await other, content.length);
      for (const connection of unread) connection.destroy();
      await until(() => roomy.bytes === 0);
      wire.close();
      await shared.close();
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
