import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import type { WireResponse } from "../../wire/operation.ts";
import { AnswerWriter } from "./answer-writer.ts";

const TEXT = "a body";
const LENGTH = ["Content-Length", String(TEXT.length)];

describe("Answers of the fast lane", () => {
  const servers: Server[] = [];
  after(() => {
    for (const server of servers) server.close();
  });

  async function connection() {
    const server = createServer();
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const accepted = once(server, "connection");
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    client.pause();
    const [socket]: Socket[] = await accepted;
    return { client, socket: socket! };
  }

  /** What a client reads of an answer after which the connection ends. */
  async function sent(answer: WireResponse, verb: string): Promise<string> {
    const { client, socket } = await connection();
    await new AnswerWriter(socket).write(answer, verb, true);
    return received(client);
  }

  let isBack = false;
  const answers: [string, () => WireResponse][] = [
    ["text", () => ({ status: 200, headers: [], body: TEXT })],
    ["bytes", () => ({ status: 200, headers: [], body: Buffer.from(TEXT) })],
    ["long bytes", () => ({ status: 200, headers: [], body: Buffer.alloc(100_000) })],
    ["parts", () => ({ status: 200, headers: LENGTH, body: inParts() })],
    ["lent memory", () => ({ status: 200, headers: [], body: lent(() => (isBack = true)) })],
  ];

  for (const [kind, answer] of answers) {
    it(`to HEAD are only a head, for a body of ${kind}`, async () => {
      const [head, ...behind] = (await sent(answer(), "HEAD")).split("\r\n\r\n");
      assert.match(head!, /^HTTP\/1\.1 200 OK\r\n(.*\r\n)*Content-Length: [1-9]/);
      assert.deepEqual(behind, [""]);
    });

    it(`to GET have a body of the announced length, for a body of ${kind}`, async () => {
      const [head, body] = (await sent(answer(), "GET")).split("\r\n\r\n");
      assert.equal(body!.length, Number(/Content-Length: (\d+)/.exec(head!)?.[1]));
    });
  }

  for (const writes of ["directly", "by the stream"]) {
    it(`to a client that does not read stay intact while another client is answered (written ${writes})`, async () => {
      const [slow, quick] = [await connection(), await connection()];
      const handle = Reflect.get(slow.socket, "_handle");
      if (writes === "by the stream") Object.assign(handle, { writeBuffer: undefined });
      const writer = new AnswerWriter(slow.socket);
      Reflect.deleteProperty(handle, "writeBuffer");
      const body = "s".repeat(10_000);
      const answer = { status: 200, headers: [], body };
      let count = 1;
      for (; !writer.mustDrain; count++) writer.write(answer, "GET", false);
      new AnswerWriter(quick.socket).write({ ...answer, body: "q".repeat(10_000) }, "GET", true);
      assert.match(await received(quick.client), /q$/);
      const text = received(slow.client);
      await new Promise<void>((resolve) => writer.whenDrained(resolve));
      writer.write(answer, "GET", true);
      const bodies = (await text).split(/HTTP(?:.*\r\n)*?\r\n/);
      assert.equal(bodies.length, count + 1);
      assert.ok(bodies.slice(1).every((each) => each === body));
    });
  }

  for (const writes of ["directly", "by the stream"]) {
    it(`give lent memory back at once if the system takes it (written ${writes})`, async () => {
      const { client, socket } = await connection();
      if (writes === "by the stream") {
        Object.assign(Reflect.get(socket, "_handle"), { writeBuffer: undefined });
      }
      const writer = new AnswerWriter(socket);
      Reflect.deleteProperty(Reflect.get(socket, "_handle"), "writeBuffer");
      isBack = false;
      const body = lent(() => (isBack = true));
      void writer.write({ status: 200, headers: [], body }, "GET", false);
      assert.ok(isBack);
      client.destroy();
      socket.destroy();
    });
  }

  it("keep lent memory while a client does not read, and count all of it", async () => {
    const { client, socket } = await connection();
    const writer = new AnswerWriter(socket);
    let lentOnes = 0;
    const body = lent(() => lentOnes--);
    while (!writer.mustDrain) {
      lentOnes++;
      void writer.write({ status: 200, headers: [], body }, "GET", false);
    }
    assert.equal(lentOnes, 1);
    assert.equal(writer.unreadBytes, body.memory.length);
    client.resume();
    await new Promise<void>((resolve) => writer.whenDrained(resolve));
    assert.equal(lentOnes, 0);
    client.destroy();
    socket.destroy();
  });

  it("give lent memory back even if its contents are not sent", async () => {
    isBack = false;
    await sent({ status: 200, headers: [], body: lent(() => (isBack = true)) }, "HEAD");
    assert.ok(isBack);
  });
});

async function received(client: Socket): Promise<string> {
  let text = "";
  for await (const part of client) text += part;
  return text;
}

async function* inParts() {
  yield Buffer.from(TEXT.slice(0, 2));
  yield Buffer.from(TEXT.slice(2));
}

/** As entity lists are sent: with room for a head in front. */
function lent(giveBack: () => void) {
  const start = 4096;
  const memory = Buffer.alloc(start + TEXT.length);
  memory.write(TEXT, start);
  return { memory, start, end: memory.length, giveBack, [Symbol.asyncIterator]: inParts };
}
