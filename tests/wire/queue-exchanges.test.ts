import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { openTestEngine } from "../support/test-engine.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { startLocalServer } from "./local-server.ts";
import { KEY, QueueWire, sign, stringToSign } from "./queue-wire.ts";
import { type Exchange, type Message, parseTranscripts } from "./raw-exchange.ts";

const exchanges = parseTranscripts(
  readFileSync(new URL("./queue-exchanges.txt", import.meta.url), "utf8"),
);

/** The instant that all requests are signed for; no time passes between them. */
const now = Date.parse("2026-07-31T18:00:00Z");
const clock = { now: () => now };

/** The ids of the recorded story's two messages; all other random bytes count up. */
const IDS = ["5974b5860df34e2dad0c18e3892bfca2", "06eba21481074412a7f6710a9baff647"];

/** State that the recorded story assumes before an exchange. */
const BEFORE: Record<number, (wire: QueueWire) => Promise<HttpAnswer>> = {
  24: (wire) => wire.send("PUT", "/orders-poison", { signedAt: now }),
};

for (const lane of ["fast", "node"] as const) {
  describe(`The Queue service answers as recorded, byte by byte (${lane} lane):`, () => {
    const receipts = new Map<string, string>();
    let server: Awaited<ReturnType<typeof startLocalServer>>;
    let wire: QueueWire;

    before(async () => {
      const engine = await openTestEngine({ clock });
      const listen = { queue: { host: "127.0.0.1", port: 0 } };
      server = await startLocalServer({ clock, engine, lane, listen, randomBytes: storyBytes() });
      wire = new QueueWire(server.urls.queue!);
    });
    after(async () => {
      wire.close();
      await server.close();
    });

    for (const exchange of exchanges) {
      it(`${exchange.number} ${exchange.title}`, async () => {
        await BEFORE[exchange.number]?.(wire);
        const { request } = exchange;
        const [method = ""] = request.line.split(" ");
        const answer = await wire.sendBytes(method, bytesOf(request, receipts));
        check(answer, exchange, receipts);
      });
    }
  });
}

/** Random bytes that produce the ids of the recorded story. */
function storyBytes(): (count: number) => Buffer {
  const ids = [...IDS];
  let drawn = 0;
  return (count) => {
    const bytes = Buffer.alloc(count, ++drawn);
    if (count > 16) bytes.set(Buffer.from(ids.shift() ?? "", "hex"));
    return bytes;
  };
}

/** The request as recorded; only one that contains a pop receipt is signed again, for the receipt issued here. */
function bytesOf({ line, headers, body }: Message, receipts: ReadonlyMap<string, string>): Buffer {
  const [, recorded] = /popreceipt=([\w-]+)/.exec(line) ?? [];
  const issued = recorded && receipts.get(recorded);
  const ours = issued ? line.replace(recorded, issued) : line;
  const sent = headers.map(([name, value]): [string, string] => [name, value]);
  if (issued) {
    const [method = "", target = ""] = ours.split(" ");
    const text = stringToSign(method, target, Object.fromEntries(sent));
    const authorization = sent.find(([name]) => name === "Authorization")!;
    authorization[1] = `SharedKey devstoreaccount1:${sign(KEY, text)}`;
  }
  const head = [ours, ...sent.map(([name, value]) => `${name}: ${value}`)].join("\r\n");
  return Buffer.from(`${head}\r\n\r\n${body}`, "utf8");
}

function check(answer: HttpAnswer, { response }: Exchange, receipts: Map<string, string>): void {
  const requestId = answer.header("x-ms-request-id")!;
  let { body } = response;
  body = body.replaceAll(/(?<=RequestId:)[\w-]+/g, requestId);
  body = body.replace(/(?<=18:00:00\.)\d{7}(?=Z)/, "0000000");
  const [, recorded] = /<PopReceipt>(.*?)<\/PopReceipt>/.exec(body) ?? [];
  const [, issued] = /<PopReceipt>(.*?)<\/PopReceipt>/.exec(answer.text) ?? [];
  if (recorded && issued) {
    receipts.set(recorded, issued);
    body = body.replace(recorded, issued);
  }
  assert.equal(`${answer.status} ${answer.reason}`, response.line.slice("HTTP/1.1 ".length));
  assert.equal(answer.text, body);

  const found = new Map(answer.headers.map(([name, value]) => [name.toLowerCase(), value]));
  for (const [name, value] of response.headers) {
    const key = name.toLowerCase();
    const actual = found.get(key);
    found.delete(key);
    if (key === "x-ms-popreceipt") receipts.set(value, actual!);
    else if (key !== "x-ms-request-id") assert.equal(actual, value, name);
  }
  for (const name of UNRECORDED) found.delete(name);
  assert.deepEqual([...found], [], "headers that are not recorded");
}

/** Omitted from the recordings or, like Vary, caused by a rule that was set in the story. */
const UNRECORDED = ["server", "connection", "keep-alive", "vary"];
