import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { HttpConnection } from "./http-connection.ts";
import { KEY } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";

/** Running from the sources, it opens as many files at once as it imports modules. */
const FILES_MAX = 512;
const GET = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

for (const lane of ["fast", "node"]) {
  describe(`A server that may open ${FILES_MAX} files (${lane})`, () => {
    it("closes idle connections for new ones, says so, and goes on storing", async () => {
      await withFolder(async (folder) => {
        const ports = ["table", "queue", "blob"].flatMap((name) => [`--${name}Port`, "0"]);
        const args = ["serve", ...ports, "--location", folder, "--lane", lane, "--metrics"];
        const server = new RowhouseCommand(args, {}, `ulimit -n ${FILES_MAX}`);
        try {
          const [, at] = await server.until(/Table service is successfully listening at (\S+)/);
          await server.until(/Blob service is successfully listening/);
          const url = new URL(at!);
          const connections: HttpConnection[] = [];
          for (let i = 0; i < FILES_MAX; i++) {
            const connection = await HttpConnection.open(url);
            connection.write(GET);
            assert.equal((await connection.answer()).status, 200);
            connections.push(connection);
          }
          await server.until(/"max":384,"closedIdle":1,"refused":0.*closed connections/, "stderr");
          // Which one has been idle for the longest time is known to within a second.
          const closed = await Promise.race(connections.map((each) => each.rest()));
          assert.equal(closed.length, 0);
          const name = "devstoreaccount1";
          const tables = new TableWire({ url: `${url.origin}/${name}`, account: name, key: KEY });
          const created = await tables.send("POST", "/Tables", { body: { TableName: "People" } });
          assert.equal(created.status, 201);
          tables.close();
          const metrics = await (await fetch(new URL("/_rowhouse/metrics", url))).text();
          assert.match(metrics, /^rowhouse_connections_closed_total\{reason="idle"\} 1\d\d$/m);
          for (const connection of connections) connection.destroy();
          server.signal("SIGTERM");
          assert.equal(await server.exited, 0, server.stderr);
        } finally {
          server.signal("SIGKILL");
        }
      });
    });
  });
}
