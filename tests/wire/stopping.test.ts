import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { HttpConnection } from "./http-connection.ts";
import { StorageWire } from "./storage-wire.ts";

const MIB = 1 << 20;

for (const lane of ["fast", "node"]) {
  describe(`SIGTERM (${lane})`, () => {
    it("cuts uploads that trickle, and each connection whose answer has been read to its end", async () => {
      await withFolder(async (folder) => {
        const server = await startRowhouse(folder, ["--lane", lane]);
        const blobs = new StorageWire(server.blobUrl, "application/octet-stream");
        const url = new URL(server.blobUrl);
        const isBlob = { "x-ms-blob-type": "BlockBlob" };
        try {
          await blobs.send("PUT", "/files?restype=container", {});
          const content = Buffer.alloc(32 * MIB, "content");
          const put = await blobs.send("PUT", "/files/large", { body: content, headers: isBlob });
          assert.equal(put.status, 201, put.body.toString());
          const [first, second] = await Promise.all(
            Array.from({ length: 2 }, async () => {
              const download = connect({ host: url.hostname, port: Number(url.port) });
              download.write(blobs.bytes("GET", "/files/large", {}));
              await once(download, "readable");
              return download;
            }),
          );
          const upload = blobs.bytes("PUT", "/files/slow", {
            body: Buffer.alloc(4 * MIB),
            headers: isBlob,
          });
          const timers: NodeJS.Timeout[] = [];
          const uploads = await Promise.all(
            Array.from({ length: 5 }, async () => {
              const connection = await HttpConnection.open(url);
              connection.write(upload.subarray(0, 2000));
              timers.push(setInterval(() => connection.write("x".repeat(20)), 100));
              return connection;
            }),
          );
          const stopped = server.stop();
          await Promise.all(uploads.map((connection) => connection.rest()));
          timers.forEach(clearInterval);
          // Had one of them been waited for until the last moment, all would have been cut then.
          for (const download of [first!, second!]) {
            await once(download.resume(), "close");
            assert.ok(download.bytesRead > content.length, `${download.bytesRead} bytes were read`);
          }
          assert.equal(await stopped, 0);
        } finally {
          blobs.close();
          await server.kill();
        }
      });
    });
  });
}
