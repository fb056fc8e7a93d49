import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { MemoryContentStore } from "@rowhouse/server/content/memory-content-store";
import { openTestEngine, runsOverPostgres } from "../support/test-engine.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { startLocalServer } from "./local-server.ts";
import { type Exchange, type Message, parseTranscripts } from "./raw-exchange.ts";
import { KEY, StorageWire, sign, stringToSign } from "./storage-wire.ts";

const exchanges = parseTranscripts(
  readFileSync(new URL("./blob-exchanges.txt", import.meta.url), "utf8"),
);

/** The instant that all requests are signed for; no time passes between them. */
const now = Date.parse("2026-07-31T18:00:00Z");
const clock = { now: () => now };

/** State that the recorded story assumes before an exchange. */
const BEFORE: Record<number, (wire: StorageWire) => Promise<HttpAnswer>> = {
  29: (wire) =>
    wire.send("PUT", "/logs/queue/2014/07/31/1900/000001.log", {
      signedAt: now,
      headers: { "x-ms-blob-type": "AppendBlob" },
    }),
};

describe("The Blob service answers as recorded, byte by byte:", () => {
  /** The last ETag returned for each path. */
  const etags = new Map<string, string>();
  let server: Awaited<ReturnType<typeof startLocalServer>>;
  let wire: StorageWire;

  before(async () => {
    server = await startLocalServer({
      clock,
      engine: await openTestEngine({ clock }),
      // Over a database, contents are in its rows.
      contentStore: runsOverPostgres() ? undefined : new MemoryContentStore(),
      listen: { blob: { host: "127.0.0.1", port: 0 } },
    });
    wire = new StorageWire(server.urls.blob!, "application/octet-stream");
  });
  after(async () => {
    wire.close();
    await server.close();
  });

  for (const exchange of exchanges) {
    it(`${exchange.number} ${exchange.title}`, async () => {
      await BEFORE[exchange.number]?.(wire);
      const { request } = exchange;
      const [method = "", target = ""] = request.line.split(" ");
      const path = target.split("?")[0]!;
      const answer = await wire.sendBytes(method, bytesOf(request, etags.get(path)));
      check(answer, exchange);
      const etag = answer.header("etag");
      if (etag) etags.set(path, etag);
    });
  }
});

const SAMPLE_ETAG = /0x8DECF31A2B4C[0-9A-F]{3}/;

/** The request as recorded; only one that contains an ETag is signed again, for the ETag issued here. */
function bytesOf({ line, headers, body }: Message, etag: string | undefined): Buffer {
  const sent = headers.map(([name, value]): [string, string] => [name, value]);
  const condition = sent.find(([, value]) => SAMPLE_ETAG.test(value));
  if (condition && etag) {
    condition[1] = etag;
    const [method = "", target = ""] = line.split(" ");
    const text = stringToSign(method, target, Object.fromEntries(sent));
    const authorization = sent.find(([name]) => name === "Authorization")!;
    authorization[1] = `SharedKey devstoreaccount1:${sign(KEY, text)}`;
  }
  const head = [line, ...sent.map(([name, value]) => `${name}: ${value}`)].join("\r\n");
  const length = Number(sent.find(([name]) => name === "Content-Length")?.[1] ?? 0);
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`), bodyOf(body, length)]);
}

/** Bodies in hexadecimal are marked as such; those that end in a line feed have lost it. */
function bodyOf(text: string, length: number): Buffer {
  if (text.startsWith("[hex] ")) return Buffer.from(text.slice(6).replaceAll(" ", ""), "hex");
  const bytes = Buffer.from(text, "utf8");
  return bytes.length < length ? Buffer.concat([bytes, Buffer.from("\n")]) : bytes;
}

function check(answer: HttpAnswer, { response }: Exchange): void {
  const requestId = answer.header("x-ms-request-id")!;
  const body = response.body
    .replaceAll(/(?<=RequestId:)[\w-]+/g, requestId)
    .replace(/(?<=18:00:00\.)\d{7}(?=Z)/, "0000000");
  assert.equal(`${answer.status} ${answer.reason}`, response.line.slice("HTTP/1.1 ".length));
  assert.equal(general(answer.text), general(body));

  const found = new Map(answer.headers.map(([name, value]) => [name.toLowerCase(), value]));
  for (const [name, value] of response.headers) {
    const key = name.toLowerCase();
    const actual = found.get(key);
    found.delete(key);
    if (key === "x-ms-request-id" || key === "x-ms-copy-id") assert.match(actual!, GUID);
    else assert.equal(general(actual ?? "(absent)"), general(value), name);
  }
  for (const name of UNRECORDED) found.delete(name);
  assert.deepEqual([...found], [], "headers that are not recorded");
}

const GUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function general(text: string): string {
  return text.replaceAll(/0x8DE[0-9A-F]{12}/g, "ETAG");
}

/** Omitted from the recordings. */
const UNRECORDED = ["server", "connection", "keep-alive"];
