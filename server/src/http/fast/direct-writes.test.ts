import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { DirectWrites } from "./direct-writes.ts";

/** More than the system buffers for a client that does not read. */
const TOO_MUCH = 32 * 1024 * 1024;

describe("Direct writes", () => {
  const servers: Server[] = [];
  after(() => {
    for (const server of servers) server.close();
  });

  /** A connection whose client does not read yet. */
  async function connection() {
    const server = createServer();
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const accepted = once(server, "connection");
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    client.pause();
    const [socket]: Socket[] = await accepted;
    socket!.on("error", () => socket!.destroy());
    const writes = DirectWrites.of(socket!);
    assert.ok(writes, "This runtime must support direct writes.");
    return { client, socket: socket!, writes };
  }

  it("reach the client in order, before and after writes of the stream", async () => {
    const { client, socket, writes } = await connection();
    writes.write(Buffer.from("one "));
    socket.write("two ");
    assert.equal(writes.isFree, true);
    writes.write(Buffer.from("three "));
    socket.end("four");
    assert.equal(writes.isFree, false);
    assert.equal((await received(client)).toString(), "one two three four");
  });

  it("allow the bytes to be reused immediately if they do not wait", async () => {
    const { client, socket, writes } = await connection();
    const bytes = Buffer.alloc(4);
    for (let i = 0; i < 100; i++) {
      bytes.write(String(i).padStart(4, "0"));
      writes.write(bytes);
      assert.equal(writes.waits, false);
    }
    socket.end();
    const all = (await received(client)).toString();
    assert.equal(all.length, 400);
    assert.ok(all.startsWith("000000010002") && all.endsWith("00980099"), all);
  });

  it("wait only for their own client if it does not read", async () => {
    const slow = await Promise.all([connection(), connection()]);
    const taken = slow.map(({ writes }, i) => {
      writes.write(Buffer.alloc(TOO_MUCH, `${i}`));
      const gone = new Promise<void>((resolve) => writes.whenTaken(resolve));
      assert.deepEqual([writes.waits, writes.isFree], [true, false]);
      return gone;
    });
    const quick = await connection();
    quick.writes.write(Buffer.from("quick"));
    quick.socket.end();
    assert.equal((await received(quick.client)).toString(), "quick");
    for (const i of [1, 0]) {
      const { client, socket, writes } = slow[i]!;
      assert.equal(writes.waits, true);
      const all = received(client);
      await taken[i];
      assert.equal(writes.isFree, true);
      writes.write(Buffer.from("."));
      socket.end();
      const bytes = await all;
      assert.equal(bytes.equals(Buffer.from(`${`${i}`.repeat(TOO_MUCH)}.`)), true);
    }
  });

  it("are not reported as taken if the connection breaks", async () => {
    const { client, socket, writes } = await connection();
    writes.write(Buffer.alloc(TOO_MUCH));
    writes.whenTaken(() => assert.fail("The client never read them."));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    client.resetAndDestroy();
    await closed;
    assert.equal(writes.isFree, false);
  });

  it("destroy the socket if they fail", async () => {
    const { client, socket, writes } = await connection();
    client.resetAndDestroy();
    // The system reports the reset with a write or with a read, whichever comes first.
    while (writes.isFree) {
      writes.write(Buffer.from("hello?"));
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    assert.equal(socket.destroyed, true);
  });

  it("are not available if the handle lacks writeBuffer", async () => {
    const { client, socket } = await connection();
    Object.assign(Reflect.get(socket, "_handle"), { writeBuffer: undefined });
    assert.equal(DirectWrites.of(socket), undefined);
    client.destroy();
    socket.destroy();
  });
});

async function received(client: Socket): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of client) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
