import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { AnonymousCredential, BlobServiceClient } from "@azure/storage-blob";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { KEY } from "../wire/queue-wire.ts";
import { ACCOUNT, JSON_TYPE, StandIn } from "./stand-in.ts";

type AbortSignalLike = Pick<AbortSignal, "aborted">;
type PipelinePolicy = Parameters<TableServiceClient["pipeline"]["addPolicy"]>[0];

let standIn: StandIn;
before(async () => {
  standIn = await StandIn.start();
});
after(() => standIn.close());

function pipelineOf(service: BlobServiceClient) {
  // biome-ignore lint/complexity/useLiteralKeys: the client shows its pipeline to no others.
  return service["storageClientContext"].pipeline;
}

describe("the time limits of the official clients", () => {
  it("add an abort signal to requests only if there is a limit", async () => {
    standIn.answer = { status: 200, headers: { "content-type": JSON_TYPE }, body: '{"value":[]}' };
    const signals: boolean[] = [];
    for (const answerWithinMs of [1000, Number.POSITIVE_INFINITY]) {
      const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
      const service = new TableServiceClient(standIn.url, credential, {
        allowInsecureConnection: true,
      });
      service.pipeline.addPolicy(
        {
          name: "look",
          sendRequest(request, next) {
            signals.push(request.abortSignal !== undefined);
            return next(request);
          },
        },
        { afterPolicies: ["rowhouseAnswer"] },
      );
      const port = azureTables(service, { answerWithinMs });
      assert.deepEqual(await port.listTables({}), { names: [] });
    }
    assert.deepEqual(signals, [true, false]);
  });

  it("end with a failed request, and start again for its retry", async (test) => {
    test.mock.timers.enable({ apis: ["setInterval"] });
    const signals: AbortSignalLike[] = [];
    const service = new TableServiceClient(standIn.url, { allowInsecureConnection: true });
    const again: PipelinePolicy = {
      name: "again",
      sendRequest: (request, next) => next(request).catch(() => next(request)),
    };
    const look: PipelinePolicy = {
      name: "look",
      sendRequest(request, next) {
        if (request.abortSignal) signals.push(request.abortSignal);
        return next(request);
      },
    };
    service.pipeline.addPolicy(again);
    service.pipeline.addPolicy(look, { afterPhase: "Sign" });
    const port = azureTables(service);
    standIn.answer = {
      status: 200,
      headers: { "content-length": "1000" },
      body: "the first of it",
    };
    await assert.rejects(port.listTables({}));
    const blobService = new BlobServiceClient(standIn.url, new AnonymousCredential(), singleTry);
    const blobPort = azureBlobs(blobService);
    pipelineOf(blobService).addPolicy(look, { afterPhase: "Sign" });
    await assert.rejects(blobPort.get("c", "b"));
    test.mock.timers.tick(2 * 60_000);
    // A blob that is not read to its end is aborted, to release its connection.
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, false, true],
    );
    assert.equal(new Set(signals).size, 3);
  });

  it("share a signal between requests only if no stream or token request may still use it", async () => {
    const signals: unknown[] = [];
    const looking = (header: string): PipelinePolicy => ({
      name: "look",
      sendRequest(request, next) {
        signals.push(request.abortSignal);
        request.headers.set("authorization", header);
        return next(request);
      },
    });
    const order = { afterPhase: "Sign" } as const;
    standIn.answer = { status: 200, headers: { "content-type": JSON_TYPE }, body: '{"value":[]}' };
    for (const [header, isShared] of [
      ["SharedKeyLite a:b", true],
      ["Bearer t", false],
    ] as const) {
      const service = new TableServiceClient(standIn.url, { allowInsecureConnection: true });
      service.pipeline.addPolicy(looking(header), order);
      const port = azureTables(service);
      for (let i = 0; i < 2; i++) await port.listTables({});
      const [first, second] = signals.splice(0);
      assert.ok(first);
      assert.equal(first === second, isShared, header);
    }

    const service = new BlobServiceClient(standIn.url, new AnonymousCredential(), singleTry);
    azureBlobs(service);
    pipelineOf(service).addPolicy(looking("SharedKey a:b"), order);
    const blob = service.getContainerClient("c").getBlobClient("b");
    standIn.answer = {
      status: 200,
      headers: { "content-length": "5", etag: '"1"' },
      body: "later",
    };
    const { readableStreamBody } = await blob.download();
    standIn.answer = { status: 200 };
    for (let i = 0; i < 2; i++) await blob.getProperties();
    const [ofStream, first, second] = signals;
    assert.ok(ofStream && first);
    assert.notEqual(first, ofStream);
    assert.equal(first, second);
    for await (const bytes of readableStreamBody!) assert.equal(String(bytes), "later");
  });

  it("are sent to the service with writes of blobs, whatever the characters of the name", async () => {
    const blobs = standIn.blobs();
    standIn.answer = { status: 201, headers: { etag: '"1"' } };
    await blobs.put("c", "a/b c?ü", new Uint8Array(1), { timeoutS: 7 });
    assert.match(standIn.last.url ?? "", /\/c\/a\/b%20c%3F%C3%BC\?timeout=7$/);
    standIn.answer = { status: 202 };
    await blobs.delete("c", "a", { timeoutS: 8 });
    assert.match(standIn.last.url ?? "", /\/c\/a\?timeout=8$/);
    await blobs.delete("c", "a");
    assert.doesNotMatch(standIn.last.url ?? "", /timeout/);
  });

  it("do not end a download while bytes keep arriving", async (test) => {
    test.mock.timers.enable({ apis: ["setInterval"] });
    const sender = createServer((_, response) => {
      const ours = { "x-ms-request-id": "1", "x-ms-version": "2020-10-02" };
      response.writeHead(200, { "content-length": "5", etag: '"1"', ...ours }).flushHeaders();
      sender.emit("asked", response);
    });
    await new Promise<void>((resolve) => sender.listen(0, "127.0.0.1", resolve));
    const address = sender.address();
    const at = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/${ACCOUNT}`;
    const service = new BlobServiceClient(at, new AnonymousCredential(), singleTry);
    const begun = new Promise<NodeJS.ReadableStream>((resolve) => {
      pipelineOf(service).addPolicy({
        name: "look",
        async sendRequest(request, next) {
          const got = await next(request);
          if (got.readableStreamBody) resolve(got.readableStreamBody);
          return got;
        },
      });
    });
    const asked = once(sender, "asked");
    const blob = azureBlobs(service, { answerWithinMs: 1000 }).get("c", "b");
    const [response] = await asked;
    const body = await begun;
    for (const byte of "later") {
      const came = once(body, "data");
      response.write(byte);
      await came;
      test.mock.timers.tick(1000);
    }
    assert.equal(String(Buffer.from((await blob)!.body)), "later");
    sender.closeAllConnections();
    sender.close();
  });
});
