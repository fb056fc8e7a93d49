import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import type { WireResponse } from "../operation.ts";
import { AnswerWriter } from "./answer-writer.ts";

const TEXT = "a body";
const LENGTH = ["Content-Length", String(TEXT.length)];

describe("Answers of the fast lane", () => {
  const servers: Server[] = [];
  after(() => {
    for (const server of servers) server.close();
  });

  /** What a client reads of an answer behind which the connection ends. */
  async function sent(answer: WireResponse, verb: string): Promise<string> {
    const server = createServer();
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const accepted = once(server, "connection");
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const [socket]: Socket[] = await accepted;
    await new AnswerWriter(socket!).write(answer, verb, true);
    let text = "";
    for await (const part of client) text += part;
    return text;
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
    it(`to HEAD are a head alone, also of ${kind}`, async () => {
      const [head, ...behind] = (await sent(answer(), "HEAD")).split("\r\n\r\n");
      assert.match(head!, /^HTTP\/1\.1 200 OK\r\n(.*\r\n)*Content-Length: [1-9]/);
      assert.deepEqual(behind, [""]);
    });

    it(`to GET are as long as they say, also of ${kind}`, async () => {
      const [head, body] = (await sent(answer(), "GET")).split("\r\n\r\n");
      assert.equal(body!.length, Number(/Content-Length: (\d+)/.exec(head!)?.[1]));
    });
  }

  it("give lent memory back, though nobody is sent it", async () => {
    isBack = false;
    await sent({ status: 200, headers: [], body: lent(() => (isBack = true)) }, "HEAD");
    assert.ok(isBack);
  });
});

async function* inParts() {
  yield Buffer.from(TEXT.slice(0, 2));
  yield Buffer.from(TEXT.slice(2));
}

/** As lists have it: with room for a head in front. */
function lent(giveBack: () => void) {
  const start = 4096;
  const memory = Buffer.alloc(start + TEXT.length);
  memory.write(TEXT, start);
  return { memory, start, end: memory.length, giveBack, [Symbol.asyncIterator]: inParts };
}
