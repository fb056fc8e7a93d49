import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { connect as connectTo } from "node:net";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import {
  AnonymousCredential,
  BlobServiceClient,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import {
  StorageSharedKeyCredential as QueueCredential,
  QueueServiceClient,
} from "@azure/storage-queue";
import { connect, entity, f, k } from "@rowhouse/patterns";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureQueues } from "@rowhouse/patterns/azure-queues";
import { type AzureTablesOptions, azureTables } from "@rowhouse/patterns/azure-tables";
import { type EdmValue, text } from "@rowhouse/patterns/ports/edm";
import { PortError } from "@rowhouse/patterns/ports/port-error";
import { KEY } from "../wire/queue-wire.ts";

type AbortSignalLike = Pick<AbortSignal, "aborted">;
type PipelinePolicy = Parameters<TableServiceClient["pipeline"]["addPolicy"]>[0];

/** What the next requests are answered with: what some service says and Rowhouse does not. */
interface Answer {
  /** What answers is no service, but something on the way to it. */
  readonly isOthers?: boolean;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const ACCOUNT = "devstoreaccount1";
const JSON_TYPE = "application/json;odata=minimalmetadata;charset=utf-8";
const key = { partitionKey: "p", rowKey: "r" };
const receipt = { id: "1", popReceipt: "2" };
let server: Server;
let url = "";
let answer: Answer;
let requests = 0;
let last: IncomingMessage;

before(async () => {
  server = createServer((request, response) => {
    requests++;
    last = request;
    request.resume().on("end", () => {
      const { status, headers, body = "", isOthers } = answer;
      const ours = isOthers ? {} : { "x-ms-request-id": "1" };
      response.writeHead(status, { date: "Sun, 22 Nov 2026 10:00:00 GMT", ...ours, ...headers });
      if (headers?.["content-length"] === undefined) response.end(body);
      else response.write(body, () => response.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/${ACCOUNT}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

function tables(options: AzureTablesOptions = {}) {
  const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
  const service = new TableServiceClient(url, credential, { allowInsecureConnection: true });
  return azureTables(service, options);
}

function blobs() {
  const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
  return azureBlobs(new BlobServiceClient(url, credential, singleTry));
}

function queues() {
  return azureQueues(new QueueServiceClient(url, new QueueCredential(ACCOUNT, KEY), singleTry));
}

function pipelineOf(service: BlobServiceClient) {
  // biome-ignore lint/complexity/useLiteralKeys: the client shows its pipeline to no others.
  return service["storageClientContext"].pipeline;
}

/** The same question of all three adapters, as what it is refused with after one request. */
async function refusals(): Promise<PortError[]> {
  const work = [
    () => tables().query("T", {}),
    () => blobs().put("c", "b", new Uint8Array(1)),
    () => queues().peek("q", 1),
  ];
  const errors: PortError[] = [];
  for (const ask of work) {
    requests = 0;
    const error: unknown = await ask().then(
      () => assert.fail("It was not refused."),
      (error) => error,
    );
    assert.ok(error instanceof PortError, String(error));
    assert.ok(error.cause);
    assert.equal(requests, 1, "The layers above repeat, not the client.");
    errors.push(error);
  }
  return errors;
}

/** A refusal as the Table service words it, and as the other two do. */
function refuse(status: number, code: string, headers: Readonly<Record<string, string>> = {}) {
  const message = { lang: "en-US", value: `${code}\nRequestId:1\nTime:2026` };
  answer = {
    status,
    headers: { "content-type": JSON_TYPE, "x-ms-error-code": code, ...headers },
    body: JSON.stringify({ "odata.error": { code, message } }),
  };
}

describe("the official clients as ports", () => {
  it("tell status and code of every refusal, and send it once", async () => {
    for (const [status, code] of [
      [400, "InvalidInput"],
      [401, "AuthenticationFailed"],
      [403, "AuthorizationFailure"],
      [404, "TableNotFound"],
      [409, "TableBeingDeleted"],
      [412, "UpdateConditionNotSatisfied"],
      [413, "RequestBodyTooLarge"],
      [500, "OperationTimedOut"],
      [501, "NotImplemented"],
      [503, "ServerBusy"],
    ] as const) {
      refuse(status, code);
      for (const error of await refusals()) {
        assert.deepEqual([error.status, error.code, error.retryAfterMs], [status, code, undefined]);
      }
    }
  });

  it("tell how long the service wants to be left alone", async () => {
    refuse(429, "TooManyRequests", { "retry-after": "7" });
    for (const { status, retryAfterMs } of await refusals()) {
      assert.deepEqual([status, retryAfterMs], [429, 7000]);
    }
  });

  it("tell refusals of proxies that word none", async () => {
    answer = {
      status: 502,
      headers: { "content-type": "text/html" },
      body: "<h1>Bad gateway</h1>",
    };
    for (const { status } of await refusals()) assert.equal(status, 502);
    const insert = (rowKey: string) =>
      ({ kind: "insert", ...key, rowKey, properties: {} }) as const;
    for (const ask of [
      () => tables().get("T", key),
      () => tables().commit("T", [insert("a")]),
      () => tables().commit("T", [insert("a"), insert("b")]),
      () => tables().createTable("T"),
      () => tables().deleteTable("T"),
    ]) {
      requests = 0;
      await assert.rejects(ask, (error) => error instanceof PortError && error.status === 502);
      assert.equal(requests, 1, "The layers above repeat, not the client.");
    }
  });

  it("take a page to log in at for no answer, not for an empty one or a success", async () => {
    const headers = { "content-type": "text/html" };
    answer = { isOthers: true, status: 200, headers, body: "<h1>Log in</h1>" };
    const insert = (rowKey: string) =>
      ({ kind: "insert", ...key, rowKey, properties: {} }) as const;
    for (const ask of [
      () => tables().get("T", key),
      () => tables().query("T", {}),
      () => tables().listTables({}),
      () => tables().createTable("T"),
      () => tables().commit("T", [insert("a")]),
      () => tables().commit("T", [insert("a"), insert("b")]),
      () => queues().createQueue("q"),
      () => queues().send("q", "text"),
      () => queues().receive("q", { max: 1, visibilityMs: 1000 }),
      () => queues().peek("q", 1),
      () => queues().update("q", receipt, { visibilityMs: 1000 }),
      () => queues().delete("q", receipt),
      () => blobs().createContainer("c"),
      () => blobs().get("c", "b"),
      () => blobs().put("c", "b", new Uint8Array(1)),
      () => blobs().delete("c", "b"),
      () => blobs().list("c", {}),
    ]) {
      await assert.rejects(
        ask,
        (error) => error instanceof PortError && error.status === 0,
        `${ask}`,
      );
    }
  });

  it("take what something on the way says was done for no answer", async () => {
    const insert = { kind: "insert", ...key, properties: {} } as const;
    for (const status of [200, 201, 202, 204]) {
      answer = { isOthers: true, status };
      for (const ask of [
        () => tables().commit("T", [insert]),
        () => queues().delete("q", receipt),
        () => blobs().put("c", "b", new Uint8Array(1)),
      ]) {
        await assert.rejects(ask, (error) => error instanceof PortError && error.status === 0);
      }
    }
  });

  it("ask no request id of Cosmos, only the type of a service", async () => {
    const ofCosmos = tables({ profile: "cosmos" });
    const headers = { "content-type": JSON_TYPE };
    answer = { isOthers: true, status: 200, headers, body: JSON.stringify({ value: [] }) };
    assert.deepEqual((await ofCosmos.query("T", {})).entities, []);
    answer = { isOthers: true, status: 404, headers, body: "{}" };
    assert.equal(await ofCosmos.get("T", key), undefined);
    for (const status of [200, 404]) {
      answer = { isOthers: true, status, headers: { "content-type": "text/html" }, body: "<h1>" };
      await assert.rejects(() => ofCosmos.get("T", key), /What answers is no Cosmos table service/);
    }
  });

  it("do not take a page that is kept in a blob for one to log in at", async () => {
    const page = { "content-type": "text/html", "content-length": "13" };
    answer = { status: 200, headers: { ...page, etag: '"1"' }, body: "<h1>Kept</h1>" };
    const { body } = (await blobs().get("c", "b")) ?? {};
    assert.equal(new TextDecoder().decode(body), "<h1>Kept</h1>");
  });

  it("do not take what is missing on the way for what is not there, nor for a key that is taken", async () => {
    const Town = entity("Town", {
      version: 1,
      fields: { name: f.string() },
      key: { partition: [k.str("name")], row: [k.lit("town")] },
    });
    const towns = connect({ tables: tables(), retry: { schedule: [] } }).open(Town);
    for (const type of ["text/html", "text/plain", "application/json"]) {
      const headers = { "content-type": type };
      answer = { isOthers: true, status: 404, headers, body: '{"message":"Not found"}' };
      for (const ask of [
        () => towns.get({ name: "Bonn" }),
        () => towns.insert({ name: "Bonn" }),
        () => towns.delete({ name: "Bonn" }, { force: true }),
      ]) {
        await assert.rejects(ask, /What answers is no table service/);
      }
      for (const ask of [
        () => tables().deleteTable("T"),
        () => blobs().get("c", "b"),
        () => blobs().delete("c", "b"),
      ]) {
        await assert.rejects(ask, (error) => error instanceof PortError && error.status === 0);
      }
    }
  });

  it("have no status for a request that got no answer", async () => {
    // The near end of a connection: nobody listens at its port, nor can anybody be given it.
    const address = url;
    const held = connectTo(Number(new URL(address).port), "127.0.0.1");
    await once(held, "connect");
    url = `http://127.0.0.1:${held.localPort}/${ACCOUNT}`;
    try {
      await assert.rejects(tables().query("T", {}), (error) => {
        assert.ok(error instanceof PortError);
        assert.deepEqual([error.status, error.code], [0, "ECONNREFUSED"]);
        return true;
      });
    } finally {
      url = address;
      held.destroy();
    }
  });

  it("come to requests that carry a signal only where there is a limit", async () => {
    answer = { status: 200, headers: { "content-type": JSON_TYPE }, body: '{"value":[]}' };
    const signals: boolean[] = [];
    for (const answerWithinMs of [1000, Number.POSITIVE_INFINITY]) {
      const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
      const service = new TableServiceClient(url, credential, { allowInsecureConnection: true });
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

  it("wait no more for a request that failed, and give another try a limit of its own", async (test) => {
    test.mock.timers.enable({ apis: ["setInterval"] });
    const signals: AbortSignalLike[] = [];
    const service = new TableServiceClient(url, { allowInsecureConnection: true });
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
    answer = { status: 200, headers: { "content-length": "1000" }, body: "the first of it" };
    await assert.rejects(port.listTables({}));
    const blobService = new BlobServiceClient(url, new AnonymousCredential(), singleTry);
    const blobPort = azureBlobs(blobService);
    pipelineOf(blobService).addPolicy(look, { afterPhase: "Sign" });
    await assert.rejects(blobPort.get("c", "b"));
    test.mock.timers.tick(2 * 60_000);
    // A blob that is not read to its end is given up, for its connection.
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, false, true],
    );
    assert.equal(new Set(signals).size, 3);
  });

  it("come to no request with a signal that a stream or a token on its way may hold still", async () => {
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
    answer = { status: 200, headers: { "content-type": JSON_TYPE }, body: '{"value":[]}' };
    for (const [header, isShared] of [
      ["SharedKeyLite a:b", true],
      ["Bearer t", false],
    ] as const) {
      const service = new TableServiceClient(url, { allowInsecureConnection: true });
      service.pipeline.addPolicy(looking(header), order);
      const port = azureTables(service);
      for (let i = 0; i < 2; i++) await port.listTables({});
      const [first, second] = signals.splice(0);
      assert.ok(first);
      assert.equal(first === second, isShared, header);
    }

    const service = new BlobServiceClient(url, new AnonymousCredential(), singleTry);
    azureBlobs(service);
    pipelineOf(service).addPolicy(looking("SharedKey a:b"), order);
    const blob = service.getContainerClient("c").getBlobClient("b");
    answer = { status: 200, headers: { "content-length": "5", etag: '"1"' }, body: "later" };
    const { readableStreamBody } = await blob.download();
    answer = { status: 200 };
    for (let i = 0; i < 2; i++) await blob.getProperties();
    const [ofStream, first, second] = signals;
    assert.ok(ofStream && first);
    assert.notEqual(first, ofStream);
    assert.equal(first, second);
    for await (const bytes of readableStreamBody!) assert.equal(String(bytes), "later");
  });

  it("leave the table client that they are given as it is", async () => {
    const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
    const options = { allowInsecureConnection: true, retryOptions: { retryDelayInMs: 0 } };
    const service = new TableServiceClient(url, credential, options);
    const port = azureTables(service);
    answer = { status: 503 };
    const sentBy = async (list: () => Promise<unknown>) => {
      const before = requests;
      await assert.rejects(list());
      return requests - before;
    };
    assert.equal(await sentBy(() => port.listTables({})), 1);
    assert.equal(await sentBy(() => port.query("T", {})), 1);
    // Once, and three times again.
    assert.equal(await sentBy(() => service.listTables().byPage().next()), 4);
  });

  it("wait for a blob however long it takes, while more of it comes", async (test) => {
    test.mock.timers.enable({ apis: ["setInterval"] });
    const sender = createServer((_, response) => {
      const headers = { "content-length": "5", etag: '"1"', "x-ms-request-id": "1" };
      response.writeHead(200, headers).flushHeaders();
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

  it("have no status for a blob that ends before its length either", async () => {
    const headers = { "content-length": "1000", etag: '"1"' };
    answer = { status: 200, headers, body: "the first of it" };
    await assert.rejects(
      blobs().get("c", "b"),
      (error) => error instanceof PortError && error.status === 0 && error.cause !== undefined,
    );
  });

  it("give every type as it came, whatever the service annotates", async () => {
    const wire = {
      "odata.metadata": "x",
      "odata.etag": 'W/"1"',
      PartitionKey: "p",
      RowKey: "r",
      "Timestamp@odata.type": "Edm.DateTime",
      Timestamp: "2026-11-22T10:00:00Z",
      text: "it's",
      annotatedText: "x",
      "annotatedText@odata.type": "Edm.String",
      constructor: "not Object's",
      small: -5,
      "annotatedSmall@odata.type": "Edm.Int32",
      annotatedSmall: 5,
      largest: 2_147_483_647,
      beyond: 2_147_483_648,
      half: 1.5,
      "whole@odata.type": "Edm.Double",
      whole: 2,
      wholeAsText: "3.0",
      "wholeAsText@odata.type": "Edm.Double",
      "infinite@odata.type": "Edm.Double",
      infinite: "-Infinity",
      "none@odata.type": "Edm.Double",
      none: "NaN",
      yes: true,
      "big@odata.type": "Edm.Int64",
      big: "9223372036854775807",
      "bigAsNumber@odata.type": "Edm.Int64",
      bigAsNumber: 7,
      "at@odata.type": "Edm.DateTime",
      at: "2014-07-31T18:00:00.1234567Z",
      id: "c9da6455-213d-42c9-9a79-3e9149a57833",
      "id@odata.type": "Edm.Guid",
      "bytes@odata.type": "Edm.Binary",
      bytes: "AAEC/w==",
      absent: null,
    };
    const expected: Record<string, EdmValue> = {
      text: { type: "String", value: "it's" },
      annotatedText: { type: "String", value: "x" },
      constructor: text("not Object's"),
      small: { type: "Int32", value: -5 },
      annotatedSmall: { type: "Int32", value: 5 },
      largest: { type: "Int32", value: 2_147_483_647 },
      beyond: { type: "Double", value: 2_147_483_648 },
      half: { type: "Double", value: 1.5 },
      whole: { type: "Double", value: 2 },
      wholeAsText: { type: "Double", value: 3 },
      infinite: { type: "Double", value: "-Infinity" },
      none: { type: "Double", value: "NaN" },
      yes: { type: "Boolean", value: true },
      big: { type: "Int64", value: "9223372036854775807" },
      bigAsNumber: { type: "Int64", value: "7" },
      at: { type: "DateTime", value: "2014-07-31T18:00:00.1234567Z" },
      id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
      bytes: { type: "Binary", value: "AAEC/w==" },
    };
    const stored = {
      ...key,
      etag: 'W/"1"',
      timestamp: "2026-11-22T10:00:00Z",
      servedAtMs: Date.parse("2026-11-22T10:00:00Z"),
      properties: expected,
    };
    const headers = { "content-type": JSON_TYPE };
    answer = { status: 200, headers, body: JSON.stringify(wire) };
    assert.deepEqual(await tables().get("T", key), stored);
    answer = { status: 200, headers, body: JSON.stringify({ value: [wire, wire] }) };
    assert.deepEqual((await tables().query("T", {})).entities, [stored, stored]);
  });

  it("go on after a page that is empty", async () => {
    const headers = {
      "content-type": JSON_TYPE,
      "x-ms-continuation-nextpartitionkey": "1!4!cA--",
    };
    answer = { status: 200, headers, body: JSON.stringify({ value: [] }) };
    const page = await tables().query("T", {});
    assert.deepEqual(page, { entities: [], continuation: { partitionKey: "1!4!cA--" } });
  });

  it("send a transaction as what it is, also where the URL ends with a token", async () => {
    const part = 'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n';
    const headers = { "content-type": "multipart/mixed; boundary=batchresponse_1" };
    const parts = `--changesetresponse_1\r\n\r\n${part}\r\n`.repeat(2);
    answer = { status: 202, headers, body: `${parts}--changesetresponse_1--\r\n` };
    for (const [base, query] of [
      [url, "?timeout=7"],
      [`${url}/`, "?timeout=7"],
      [`${url}?sv=2019&sig=a/b`, "?sv=2019&sig=a/b&timeout=7"],
    ]) {
      const service = new TableServiceClient(`${base}`, { allowInsecureConnection: true });
      const port = azureTables(service);
      const deletion = { kind: "delete", partitionKey: "p", rowKey: "b", ifMatch: "*" } as const;
      const insert = { kind: "insert", ...key, rowKey: "a", properties: {} } as const;
      const etags = await port.commit("T", [insert, deletion], { timeoutS: 7 });
      assert.deepEqual(etags, ['W/"1"', undefined]);
      const { accept, prefer, "content-type": type, "x-ms-client-request-id": id } = last.headers;
      assert.deepEqual([last.method, last.url], ["POST", `/${ACCOUNT}/$batch${query}`]);
      assert.deepEqual([accept, prefer], ["application/json", undefined]);
      const { dataserviceversion, maxdataserviceversion } = last.headers;
      assert.deepEqual([dataserviceversion, maxdataserviceversion], ["3.0;", "3.0;NetFx"]);
      assert.equal(type, `multipart/mixed; boundary=batch_${id}`);
    }
  });

  it("take a transaction whose operations are not all answered for one without an answer", async () => {
    const headers = { "content-type": "multipart/mixed; boundary=batchresponse_1" };
    const insert = (rowKey: string) =>
      ({ kind: "insert", partitionKey: "p", rowKey, properties: {} }) as const;
    const part = '--changesetresponse_1\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n\r\n';
    // One of them, none that can be read, and two of which the second is torn.
    for (const body of [
      `${part}--changesetresponse_1--`,
      "--changesetresponse_1\r\n\r\nHTTP/1.1 \r\n--changesetresponse_1--",
      `${part}${part.slice(0, -12)}`,
    ]) {
      answer = { status: 202, headers, body };
      await assert.rejects(
        tables().commit("T", [insert("a"), insert("b")]),
        (error) => error instanceof PortError && error.status === 0,
        body,
      );
    }
  });

  it("name the mutation that made a transaction fail", async () => {
    const part = JSON.stringify({
      "odata.error": {
        code: "EntityAlreadyExists",
        message: { lang: "en-US", value: "12:The specified entity already exists." },
      },
    });
    const lines = [
      "--batchresponse_1",
      "Content-Type: multipart/mixed; boundary=changesetresponse_1",
      "",
      "--changesetresponse_1",
      "Content-Type: application/http",
      "Content-Transfer-Encoding: binary",
      "",
      "HTTP/1.1 409 Conflict",
      "Content-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
      "",
      part,
      "--changesetresponse_1--",
      "--batchresponse_1--",
      "",
    ];
    answer = {
      status: 202,
      headers: { "content-type": "multipart/mixed; boundary=batchresponse_1" },
      body: lines.join("\r\n"),
    };
    const insert = (rowKey: string) =>
      ({ kind: "insert", partitionKey: "p", rowKey, properties: {} }) as const;
    await assert.rejects(tables().commit("T", [insert("a"), insert("b")]), (error) => {
      assert.ok(error instanceof PortError, String(error));
      assert.deepEqual([error.status, error.code, error.index], [409, "EntityAlreadyExists", 12]);
      return true;
    });
  });
});
