import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { BodyRoom } from "@rowhouse/server/http/body-room";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { KEY } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";
import { until } from "./turns.ts";

const LARGE = 500_000;
const SMALL = 20_000;

for (const lane of ["node", "fast"] as const) {
  describe(`Large bodies (${lane})`, () => {
    /** For one of them. */
    const room = new BodyRoom(2 * LARGE);
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
      server = await startLocalServer({ lane, bodyRoom: room });
      const { name } = DEVELOPMENT_ACCOUNT;
      wire = new TableWire({ url: `${server.url}/${name}`, account: name, key: KEY });
      await wire.send("POST", "/Tables", { body: { TableName: "Large" } });
    });
    after(async () => {
      wire.close();
      await server.close();
    });

    it("find room one after the other; who finds none is told that the server is busy, and may come again", async () => {
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

    it("leave their room when their client leaves", async () => {
      const connection = await open();
      connection.write(insertion("left", LARGE).subarray(0, LARGE / 2));
      await until(() => room.bytes > 0);
      connection.destroy();
      await until(() => room.bytes === 0);
    });

    it("take as much as the longest may where only their end tells how long they are", async () => {
      const connection = await open();
      const [head = "", body = ""] = insertion("chunked", SMALL)
        .toString("latin1")
        .split("\r\n\r\n");
      const chunked = head.replace(/Content-Length: \d+/, "Transfer-Encoding: chunked");
      const size = body.length.toString(16);
      connection.write(Buffer.from(`${chunked}\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`, "latin1"));
      assert.equal((await connection.answer()).status, 503);
      assert.equal(room.bytes, 0);
      connection.destroy();
    });

    it("take none where they are refused for what they are", async () => {
      const connection = await open();
      const bytes = insertion("refused", LARGE).toString("latin1");
      connection.write(Buffer.from(bytes.replace(/SharedKeyLite .*/, "$&A"), "latin1"));
      assert.equal((await connection.answer()).status, 403);
      assert.equal(room.bytes, 0);
      connection.destroy();
    });
  });
}
