import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { SharedReadBuffers } from "./shared-read-buffer.ts";

const LATIN = "latin1";

for (const lends of [true, false]) {
  describe(lends ? "Reads of a connection" : "Reads on a runtime that lends no buffer", () => {
    const servers: Server[] = [];
    after(() => {
      for (const server of servers) server.close();
    });

    /** One connection: the client's end, and the accepted end with the bytes it took. */
    async function connection() {
      const taken: string[] = [];
      const buffers = new Set<ArrayBufferLike>();
      const acceptedOnes: SharedReadBuffers[] = [];
      const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
        if (!lends) Object.assign(Reflect.get(socket, "_handle"), { useUserBuffer: undefined });
        const reads: SharedReadBuffers = new SharedReadBuffers(socket, (bytes) => {
          buffers.add(bytes.buffer);
          taken.push(bytes.toString(LATIN));
          reads.socket.emit("taken");
        });
        acceptedOnes.push(reads);
      });
      servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
      await once(server, "connection");
      const reads = acceptedOnes[0]!;
      return { server, client, reads, taken, buffers };
    }

    async function send(client: Socket, reads: SharedReadBuffers, text: string): Promise<void> {
      client.write(text);
      await once(reads.socket, "taken");
    }

    it("return the client's bytes in order", async () => {
      const { client, reads, taken, buffers } = await connection();
      await send(client, reads, "one");
      await send(client, reads, "two");
      assert.deepEqual(taken, ["one", "two"]);
      if (lends) assert.equal(buffers.size, 1);
      client.destroy();
      reads.socket.destroy();
    });

    it("pause with the socket, and report the client's end after its last bytes", async () => {
      const { client, reads, taken } = await connection();
      let ended = false;
      reads.socket.once("end", () => {
        ended = true;
      });
      await send(client, reads, "one");
      reads.socket.pause();
      client.end("two");
      await once(client, "finish");
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual([taken, ended], [["one"], false]);
      reads.socket.resume();
      await once(reads.socket, "end");
      assert.deepEqual(taken, ["one", "two"]);
      reads.socket.end();
      await once(reads.socket, "close");
    });

    it("end when they are given back: the socket is a stream again and loses no bytes", async () => {
      const { client, reads, taken } = await connection();
      await send(client, reads, "one");
      const socket = reads.giveBack(Buffer.from("one"));
      client.write("two");
      client.end("three");
      let read = "";
      socket.setEncoding(LATIN).on("data", (text: string) => {
        read += text;
      });
      socket.resume();
      await once(socket, "end");
      assert.equal(read, "onetwothree");
      assert.deepEqual(taken, ["one"]);
      socket.destroy();
    });

    it("keep the server's connection count correct", async () => {
      const { server, client, reads } = await connection();
      const count = () =>
        new Promise((resolve) => server.getConnections((_, connections) => resolve(connections)));
      await send(client, reads, "one");
      assert.equal(await count(), 1);
      reads.socket.destroy();
      await once(reads.socket, "close");
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(await count(), 0);
      client.destroy();
    });
  });
}
