import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createReceiveMessage } from "./message-workloads.ts";
import { ResponseReader } from "./response-reader.ts";
import { SharedKeyWriter } from "./shared-key-writer.ts";
import { Client, type Outcome } from "./workload.ts";

const writer = new SharedKeyWriter({
  service: "queue",
  host: "h",
  port: 1,
  account: "a",
  keyBase64: "AAAA",
});

const MESSAGE =
  "<QueueMessagesList><QueueMessage><MessageId>id-1</MessageId><PopReceipt>r+1</PopReceipt></QueueMessage></QueueMessagesList>";

describe("receiving a message", () => {
  it("sends a Get, then a Delete with the pop receipt from the answer", () => {
    const { requests, outcomes } = play([200, MESSAGE], [204, ""]);
    assert.match(requests[0]!, /^GET \/a\/q\/messages /);
    assert.match(requests[1]!, /^DELETE \/a\/q\/messages\/id-1\?popreceipt=r%2B1 /);
    assert.deepEqual(outcomes, ["again", "done"]);
  });

  it("starts with a Put if the queue is empty", () => {
    const { requests, outcomes } = play([200, "<QueueMessagesList />"], [201, ""], [200, MESSAGE]);
    assert.match(requests[1]!, /^POST \/a\/q\/messages /);
    assert.match(requests[2]!, /^GET /);
    assert.deepEqual(outcomes, ["again", "again", "again"]);
  });

  it("fails if the message is gone", () => {
    const { outcomes } = play([200, MESSAGE], [404, ""], [200, MESSAGE]);
    assert.deepEqual(outcomes, ["again", "failed", "again"]);
  });
});

/** The requests that the client sends before each of the answers, and the outcomes it derives from them. */
function play(...answers: [status: number, body: string][]) {
  const workload = createReceiveMessage(writer, "q");
  const client = new Client(0, 0);
  const reader = new ResponseReader();
  reader.keepsBodies = true;
  const requests: string[] = [];
  const outcomes: Outcome[] = [];
  for (const [status, body] of answers) {
    requests.push(String(workload.request(client)));
    const head = `HTTP/1.1 ${status} X\r\nContent-Length: ${body.length}\r\n\r\n`;
    assert.ok(reader.read(Buffer.from(head + body)));
    outcomes.push(workload.answered(client, reader));
  }
  return { requests, outcomes };
}
