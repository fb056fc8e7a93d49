import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { BodyAborted } from "../../wire/body-source.ts";
import { Holding, PeerMemory } from "../peer-memory.ts";
import { ArrivingBody } from "./arriving-body.ts";
import { SharedReadBuffers } from "./shared-read-buffer.ts";

describe("A body that is still arriving", () => {
  const servers: Server[] = [];
  after(() => {
    for (const server of servers) server.close();
  });

  /** A connection whose client has sent `begin` of a body, and a record of the bytes behind that body. */
  async function arriving(begin: string, length: number) {
    const behind: string[] = [];
    const server = createServer({ pauseOnConnect: true });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const accepting = once(server, "connection");
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const [accepted] = (await accepting) as [Socket];
    const reads: SharedReadBuffers = new SharedReadBuffers(accepted, (bytes) => {
      behind.push(body.take(bytes).toString());
      reads.socket.emit("taken");
    });
    const peer = { remoteAddress: "", account: "", isGone: false, destroy() {} };
    const holding = new Holding(new PeerMemory(), peer);
    const body = new ArrivingBody(reads, Buffer.from(begin), length, holding);
    reads.socket.on("end", () => body.abort());
    const close = () => {
      client.destroy();
      reads.socket.destroy();
    };
    return { body, client, reads, behind, close };
  }

  it("fills the reader's memory, beginning with the bytes that came with the head", async () => {
    const { body, client, close } = await arriving("ab", 8);
    const memory = Buffer.alloc(5);
    const filling = body.fill(memory);
    client.write("cdefgh");
    assert.equal(await filling, 5);
    assert.equal(memory.toString(), "abcde");
    assert.equal(await body.fill(memory), 3);
    assert.equal(memory.toString("latin1", 0, 3), "fgh");
    assert.equal(body.isWhole, true);
    assert.equal(await body.fill(memory), 0);
    close();
  });

  it("fills several memories in the order of the requests", async () => {
    const { body, client, close } = await arriving("a", 8);
    const memories = [3, 4, 5, 6].map((length) => Buffer.alloc(length, "."));
    const filling = memories.map((memory) => body.fill(memory));
    client.write("bcdefgh");
    assert.deepEqual(await Promise.all(filling), [3, 4, 1, 0]);
    assert.equal(memories.join(" "), "abc defg h.... ......");
    close();
  });

  it("pauses the connection until its reader requests more", async () => {
    const { body, client, reads, close } = await arriving("", 6);
    assert.equal(reads.socket.isPaused(), true);
    const memory = Buffer.alloc(2);
    const filling = body.fill(memory);
    assert.equal(reads.socket.isPaused(), false);
    client.write("abcd");
    await filling;
    assert.equal(reads.socket.isPaused(), true);
    assert.equal(await body.fill(memory), 2);
    assert.equal(memory.toString(), "cd");
    close();
  });

  it("leaves the bytes after its end to the next request", async () => {
    const { body, client, reads, behind, close } = await arriving("a", 3);
    const memory = Buffer.alloc(100);
    const filling = body.fill(memory);
    client.write("bcGET");
    assert.equal(await filling, 3);
    assert.equal(memory.toString("latin1", 0, 3), "abc");
    if (behind.join("") !== "GET") await once(reads.socket, "taken");
    assert.equal(behind.join(""), "GET");
    close();
  });

  it("is skipped to its end after it was discarded", async () => {
    const { body, client, reads, close } = await arriving("ab", 100_000);
    body.discard();
    client.write(Buffer.alloc(99_998));
    while (!body.isWhole) await once(reads.socket, "taken");
    assert.equal(await body.fill(Buffer.alloc(8)), 0);
    close();
  });

  it("fails for a reader that still waits when it is discarded", async () => {
    const { body, client, reads, close } = await arriving("ab", 100_000);
    const filling = body.fill(Buffer.alloc(100_000));
    body.discard();
    await assert.rejects(async () => filling, BodyAborted);
    client.write(Buffer.alloc(99_998));
    while (!body.isWhole) await once(reads.socket, "taken");
    close();
  });

  it("is aborted if the client disconnects before its end", async () => {
    const { body, client, close } = await arriving("ab", 8);
    const memory = Buffer.alloc(8);
    const filling = body.fill(memory);
    client.destroy();
    await assert.rejects(async () => filling, BodyAborted);
    assert.throws(() => body.fill(memory), BodyAborted);
    close();
  });
});
