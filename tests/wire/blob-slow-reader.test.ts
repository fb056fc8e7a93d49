import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { StorageWire } from "./storage-wire.ts";

const BLOCKS = 24;
/** Far more than two sockets and a server together buffer of an unread download. */
const BLOCK_BYTES = 1 << 20;
const block = (i: number) => Buffer.alloc(BLOCK_BYTES, `old ${i} `);
/** Too large for a row. */
const OTHER = Buffer.alloc(200_000, "new");

describe("Two servers over the same data", () => {
  it("let a slow reader of one server finish a blob that the other replaces", async () => {
    await withFolder(async (folder) => {
      const servers = [
        await startRowhouse(folder, ["--silent"]),
        await startRowhouse(folder, ["--silent"]),
      ];
      const [reading, writing] = servers.map(({ blobUrl }) => new StorageWire(blobUrl, ""));
      try {
        await upload(reading!);
        const download = await begin(servers[0]!.blobUrl, reading!);
        // Contents are freed in the order of their release, so releasing others after it lets this one be
        // freed.
        for (const path of ["/slow/blob", ...Array<string>(10).fill("/slow/other")]) {
          const put = { headers: { "x-ms-blob-type": "BlockBlob" }, body: OTHER };
          assert.equal((await writing!.send("PUT", path, put)).status, 201);
        }
        const whole = Buffer.concat(Array.from({ length: BLOCKS }, (_, i) => block(i)));
        assert.ok(whole.equals(await download.rest()));
      } finally {
        reading!.close();
        writing!.close();
        for (const server of servers) await server.stop();
      }
    });
  });
});

async function upload(wire: StorageWire): Promise<void> {
  await wire.send("PUT", "/slow?restype=container");
  const ids = Array.from({ length: BLOCKS }, (_, i) => btoa(String(1000 + i)));
  for (const [i, id] of ids.entries()) {
    const path = `/slow/blob?comp=block&blockid=${encodeURIComponent(id)}`;
    assert.equal((await wire.send("PUT", path, { body: block(i) })).status, 201);
  }
  const body = `<BlockList>${ids.map((id) => `<Latest>${id}</Latest>`).join("")}</BlockList>`;
  assert.equal((await wire.send("PUT", "/slow/blob?comp=blocklist", { body })).status, 201);
}

/** A download whose first bytes are read, and the rest only on request. `rest` returns the whole body. */
async function begin(url: string, wire: StorageWire): Promise<{ rest(): Promise<Buffer> }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(wire.bytes("GET", "/slow/blob", { headers: { Connection: "close" } }));
  await once(socket, "readable");
  const first: Buffer = socket.read();
  const head = first.indexOf("\r\n\r\n") + 4;
  assert.match(first.toString("latin1", 0, head), /^HTTP\/1.1 200 /);
  return {
    async rest() {
      const chunks = [first.subarray(head)];
      for await (const chunk of socket) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks);
    },
  };
}
