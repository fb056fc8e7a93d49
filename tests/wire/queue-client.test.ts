import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  type DequeuedMessageItem,
  generateAccountSASQueryParameters,
  generateQueueSASQueryParameters,
  QueueClient,
  QueueSASPermissions,
  QueueServiceClient,
  RestError,
  SASProtocol,
  StorageSharedKeyCredential,
} from "@azure/storage-queue";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { KEY } from "./queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);

// Stands still unless a test moves it.
let now = Date.now();
const clock = { now: () => now };
let server: LocalServer;
let url: string;
let service: QueueServiceClient;
let queues = 0;

before(async () => {
  const listen = { queue: { host: "127.0.0.1", port: 0 } };
  server = await startLocalServer({ clock, listen });
  url = `${server.urls.queue}/${ACCOUNT}`;
  service = QueueServiceClient.fromConnectionString(
    `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};QueueEndpoint=${url}`,
  );
});
after(() => server.close());

describe("The official client's queue", () => {
  it("is created, found, described and deleted", async () => {
    const queue = service.getQueueClient("client-queue");
    assert.equal(await queue.exists(), false);
    assert.equal((await queue.createIfNotExists({ metadata: { Owner: "ops" } })).succeeded, true);
    assert.equal((await queue.createIfNotExists({ metadata: { Owner: "ops" } })).succeeded, false);
    assert.equal((await queue.createIfNotExists({ metadata: { other: "1" } })).succeeded, false);
    await rejects(queue.create({ metadata: { other: "1" } }), 409, "QueueAlreadyExists");
    assert.equal(await queue.exists(), true);
    await queue.setMetadata({ Owner: "dev", zone: "eu" });
    const properties = await queue.getProperties();
    assert.deepEqual(properties.metadata, { owner: "dev", zone: "eu" });
    assert.equal(properties.approximateMessagesCount, 0);
    assert.ok(properties.requestId && properties.version && properties.date);
    assert.equal((await queue.deleteIfExists()).succeeded, true);
    assert.equal((await queue.deleteIfExists()).succeeded, false);
    await rejects(queue.delete(), 404, "QueueNotFound");
  });

  it("accepts messages, delivers, hides, updates and deletes them", async () => {
    const queue = await newQueue();
    const text = `{"order": "<1 & 'two'>", "emoji": "😀"}`;
    const sent = await queue.sendMessage(text, { messageTimeToLive: 3600 });
    assert.ok(sent.messageId && sent.popReceipt);
    assert.equal(sent.expiresOn.getTime() - sent.insertedOn.getTime(), 3_600_000);
    const [peeked] = (await queue.peekMessages()).peekedMessageItems;
    assert.equal(peeked?.messageText, text);
    assert.equal(peeked?.dequeueCount, 0);
    const [message] = (await queue.receiveMessages({ visibilityTimeout: 60 })).receivedMessageItems;
    assert.equal(message?.messageId, sent.messageId);
    assert.equal(message?.messageText, text);
    assert.equal(message?.dequeueCount, 1);
    assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 0);

    const hidden = await queue.updateMessage(message!.messageId, message!.popReceipt, "step 2", 60);
    assert.ok(hidden.popReceipt && hidden.nextVisibleOn);
    await rejects(
      queue.deleteMessage(message!.messageId, message!.popReceipt),
      404,
      "MessageNotFound",
    );
    // Without a visibility timeout, the client sends zero.
    const shown = await queue.updateMessage(message!.messageId, hidden.popReceipt!);
    assert.equal((await queue.peekMessages()).peekedMessageItems[0]?.messageText, "step 2");
    await queue.deleteMessage(message!.messageId, shown.popReceipt!);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
  });

  it("accepts messages that start hidden or never expire, and is cleared", async () => {
    const queue = await newQueue();
    await queue.sendMessage("later", { visibilityTimeout: 30, messageTimeToLive: -1 });
    const sent = await queue.sendMessage("now", { messageTimeToLive: -1 });
    assert.equal(sent.expiresOn.toISOString(), "9999-12-31T23:59:59.000Z");
    const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 32 });
    assert.deepEqual(
      receivedMessageItems.map(({ messageText }) => messageText),
      ["now"],
    );
    await queue.clearMessages();
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
  });

  it("is refused invalid requests with the service's codes and messages", async () => {
    const queue = await newQueue();
    await rejects(
      queue.receiveMessages({ numberOfMessages: 33 }),
      400,
      "OutOfRangeQueryParameterValue",
    );
    await rejects(queue.sendMessage("x".repeat(65_537)), 413, "RequestBodyTooLarge");
    await rejects(queue.sendMessage("x".repeat(200_000)), 413, "RequestBodyTooLarge");
    await rejects(queue.sendMessage("\u0001"), 400, "InvalidXmlDocument");
    await rejects(service.getQueueClient("UPPER").create(), 400, "InvalidResourceName");
    const stranger = new QueueClient(`${url}/x`, new StorageSharedKeyCredential(ACCOUNT, "AAAA"));
    const error = await rejects(stranger.create(), 403, "AuthenticationFailed");
    assert.match(
      String(Reflect.get(Object(error.details), "authenticationErrorDetail")),
      /MAC signature/,
    );
  });

  it("delivers each message to exactly one of many consumers", async () => {
    const queue = await newQueue();
    for (let first = 0; first < 300; first += 30) {
      await Promise.all(Array.from({ length: 30 }, (_, i) => queue.sendMessage(`${first + i}`)));
    }
    const done: string[] = [];
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (;;) {
          const received = await queue.receiveMessages({ numberOfMessages: 4 });
          if (received.receivedMessageItems.length === 0) return;
          for (const { messageId, popReceipt, messageText } of received.receivedMessageItems) {
            await queue.deleteMessage(messageId, popReceipt);
            done.push(messageText);
          }
        }
      }),
    );
    assert.equal(done.length, 300);
    assert.equal(new Set(done).size, 300);
  });

  it("delivers a message again after its visibility timeout, with a higher dequeue count", async () => {
    const queue = await newQueue();
    await queue.sendMessage("x");
    const receive = async (): Promise<DequeuedMessageItem | undefined> =>
      (await queue.receiveMessages({ visibilityTimeout: 10 })).receivedMessageItems[0];
    const first = await receive();
    now += 10_000;
    const second = await receive();
    assert.equal(second?.messageId, first?.messageId);
    assert.equal(second?.dequeueCount, 2);
    await rejects(queue.deleteMessage(first!.messageId, first!.popReceipt), 404, "MessageNotFound");
    await queue.deleteMessage(second!.messageId, second!.popReceipt);
  });
});

describe("The official client's service", () => {
  it("lists queues page by page, with prefix, metadata and continuation", async () => {
    const names = Array.from({ length: 25 }, (_, i) => `list-${String(i).padStart(2, "0")}`);
    for (const name of names) await service.createQueue(name, { metadata: { Name: name } });
    const listed: string[] = [];
    for await (const { name, metadata } of service.listQueues({
      prefix: "list-",
      includeMetadata: true,
    })) {
      assert.deepEqual(metadata, { Name: name });
      listed.push(name);
    }
    assert.deepEqual(listed, names);

    const pages: string[][] = [];
    let token: string | undefined;
    for await (const page of service.listQueues({ prefix: "list-" }).byPage({ maxPageSize: 10 })) {
      pages.push((page.queueItems ?? []).map(({ name }) => name));
      token = page.continuationToken || token;
      if (pages.length === 2) break;
    }
    assert.deepEqual(pages.flat(), names.slice(0, 20));
    const rest = service.listQueues({ prefix: "list-" }).byPage({ continuationToken: token! });
    const page = (await rest.next()).value;
    assert.deepEqual(
      page?.queueItems?.map(({ name }: { name: string }) => name),
      names.slice(20),
    );
  });

  it("reads and sets service properties, and is refused statistics", async () => {
    const cors = {
      allowedOrigins: "https://app.example",
      allowedMethods: "GET,PUT",
      allowedHeaders: "x-ms-*",
      exposedHeaders: "x-ms-*",
      maxAgeInSeconds: 60,
    };
    await service.setProperties({ cors: [cors] });
    const properties = await service.getProperties();
    assert.deepEqual(properties.cors, [cors]);
    assert.equal(properties.queueAnalyticsLogging?.read, false);
    assert.equal(properties.hourMetrics?.enabled, false);
    await service.setProperties({ cors: [] });
    assert.equal((await service.getProperties()).cors?.length ?? 0, 0);
    await rejects(service.getStatistics(), 400, "InvalidQueryParameterValue");
  });

  it("issues account tokens that permit only what they grant", async () => {
    const sas = generateAccountSASQueryParameters(
      {
        expiresOn: new Date(Date.now() + 3_600_000),
        permissions: AccountSASPermissions.parse("rwlacup"),
        resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
        services: "q",
        protocol: SASProtocol.HttpsAndHttp,
      },
      credential,
    ).toString();
    const guest = new QueueServiceClient(`${url}?${sas}`);
    const queue = guest.getQueueClient("account-sas");
    await queue.create();
    await queue.sendMessage("x");
    assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 1);
    assert.ok((await guest.listQueues().next()).value);
    await rejects(queue.delete(), 403, "AuthorizationPermissionMismatch");
    await rejects(queue.getAccessPolicy(), 403, "AuthorizationFailure");
  });

  it("issues queue tokens with their own permissions or with a stored policy", async () => {
    const queue = await newQueue();
    const expiresOn = new Date(Date.now() + 3_600_000);
    const permissions = QueueSASPermissions.parse("raup");
    const own = generateQueueSASQueryParameters(
      { queueName: queue.name, expiresOn, permissions },
      credential,
    );
    const worker = new QueueClient(`${url}/${queue.name}?${own}`);
    const { messageId, popReceipt } = await worker.sendMessage("x");
    const updated = await worker.updateMessage(messageId, popReceipt, "y", 0);
    assert.equal((await worker.peekMessages()).peekedMessageItems[0]?.messageText, "y");
    await worker.deleteMessage(messageId, updated.popReceipt!);
    await rejects(worker.clearMessages(), 403, "AuthorizationFailure");

    const accessPolicy = { startsOn: new Date(Date.now() - 60_000), expiresOn, permissions: "r" };
    await queue.setAccessPolicy([{ id: "reader", accessPolicy }]);
    const { signedIdentifiers } = await queue.getAccessPolicy();
    assert.deepEqual(signedIdentifiers, [{ id: "reader", accessPolicy }]);
    const stored = generateQueueSASQueryParameters(
      { queueName: queue.name, identifier: "reader" },
      credential,
    );
    const reader = new QueueClient(`${url}/${queue.name}?${stored}`);
    assert.deepEqual((await reader.peekMessages()).peekedMessageItems, []);
    await rejects(reader.sendMessage("x"), 403, "AuthorizationPermissionMismatch");
    await queue.setAccessPolicy([]);
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, []);
    await rejects(reader.peekMessages(), 403, "AuthenticationFailed");
  });
});

async function newQueue(): Promise<QueueClient> {
  const queue = service.getQueueClient(`client-${queues++}`);
  await queue.create();
  return queue;
}

async function rejects(action: Promise<unknown>, status: number, code: string): Promise<RestError> {
  try {
    await action;
  } catch (error) {
    assert.ok(error instanceof RestError, String(error));
    assert.equal(`${error.statusCode} ${error.code}`, `${status} ${code}`);
    return error;
  }
  return assert.fail(`Nothing was refused; ${code} was expected.`);
}
