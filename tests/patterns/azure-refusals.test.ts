import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectTo } from "node:net";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { connect, entity, f, k, PortError } from "@rowhouse/patterns";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { KEY } from "../wire/queue-wire.ts";
import { ACCOUNT, insert, JSON_TYPE, key, receipt, StandIn } from "./stand-in.ts";

let standIn: StandIn;
before(async () => {
  standIn = await StandIn.start();
});
after(() => standIn.close());

/** Sends the same request through all three adapters; returns their errors, each after exactly one request. */
async function refusals(): Promise<PortError[]> {
  const work = [
    () => standIn.tables().query("T", {}),
    () => standIn.blobs().put("c", "b", new Uint8Array(1)),
    () => standIn.queues().peek("q", 1),
  ];
  const errors: PortError[] = [];
  for (const ask of work) {
    standIn.requests = 0;
    const error: unknown = await ask().then(
      () => assert.fail("It was not refused."),
      (error) => error,
    );
    assert.ok(error instanceof PortError, String(error));
    assert.ok(error.cause);
    assert.equal(standIn.requests, 1, "The layers above repeat, not the client.");
    errors.push(error);
  }
  return errors;
}

/** A refusal in the form of the Table service and in that of the other two. */
function refuse(status: number, code: string, headers: Readonly<Record<string, string>> = {}) {
  const message = { lang: "en-US", value: `${code}\nRequestId:1\nTime:2026` };
  standIn.answer = {
    status,
    headers: { "content-type": JSON_TYPE, "x-ms-error-code": code, ...headers },
    body: JSON.stringify({ "odata.error": { code, message } }),
  };
}

describe("the official clients as ports", () => {
  it("report status and code of every refusal, after one request", async () => {
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

  it("report how long the service asks clients to wait", async () => {
    refuse(429, "TooManyRequests", { "retry-after": "7" });
    for (const { status, retryAfterMs } of await refusals()) {
      assert.deepEqual([status, retryAfterMs], [429, 7000]);
    }
  });

  it("report refusals of proxies that have no error code", async () => {
    standIn.answer = {
      status: 502,
      headers: { "content-type": "text/html" },
      body: "<h1>Bad gateway</h1>",
    };
    for (const { status } of await refusals()) assert.equal(status, 502);
    for (const ask of [
      () => standIn.tables().get("T", key),
      () => standIn.tables().commit("T", [insert("a")]),
      () => standIn.tables().commit("T", [insert("a"), insert("b")]),
      () => standIn.tables().createTable("T"),
      () => standIn.tables().deleteTable("T"),
    ]) {
      standIn.requests = 0;
      await assert.rejects(ask, (error) => error instanceof PortError && error.status === 502);
      assert.equal(standIn.requests, 1, "The layers above repeat, not the client.");
    }
  });

  it("do not change the table client that they are given", async () => {
    const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
    const options = { allowInsecureConnection: true, retryOptions: { retryDelayInMs: 0 } };
    const service = new TableServiceClient(standIn.url, credential, options);
    const port = azureTables(service);
    standIn.answer = { status: 503 };
    const sentBy = async (list: () => Promise<unknown>) => {
      const before = standIn.requests;
      await assert.rejects(list());
      return standIn.requests - before;
    };
    assert.equal(await sentBy(() => port.listTables({})), 1);
    assert.equal(await sentBy(() => port.query("T", {})), 1);
    // One request and three retries.
    assert.equal(await sentBy(() => service.listTables().byPage().next()), 4);
  });

  it("treat a login page as no answer, not as an empty result or a success", async () => {
    const headers = { "content-type": "text/html" };
    standIn.answer = { isOthers: true, status: 200, headers, body: "<h1>Log in</h1>" };
    for (const ask of [
      () => standIn.tables().get("T", key),
      () => standIn.tables().query("T", {}),
      () => standIn.tables().listTables({}),
      () => standIn.tables().createTable("T"),
      () => standIn.tables().commit("T", [insert("a")]),
      () => standIn.tables().commit("T", [insert("a"), insert("b")]),
      () => standIn.queues().createQueue("q"),
      () => standIn.queues().send("q", "text"),
      () => standIn.queues().receive("q", { max: 1, visibilityMs: 1000 }),
      () => standIn.queues().peek("q", 1),
      () => standIn.queues().update("q", receipt, { visibilityMs: 1000 }),
      () => standIn.queues().delete("q", receipt),
      () => standIn.blobs().createContainer("c"),
      () => standIn.blobs().get("c", "b"),
      () => standIn.blobs().put("c", "b", new Uint8Array(1)),
      () => standIn.blobs().delete("c", "b"),
      () => standIn.blobs().list("c", {}),
    ]) {
      await assert.rejects(
        ask,
        (error) => error instanceof PortError && error.status === 0,
        `${ask}`,
      );
    }
  });

  it("treat a success that an intermediary reports as no answer", async () => {
    for (const status of [200, 201, 202, 204]) {
      standIn.answer = { isOthers: true, status };
      for (const ask of [
        () => standIn.tables().commit("T", [insert("a")]),
        () => standIn.queues().delete("q", receipt),
        () => standIn.blobs().put("c", "b", new Uint8Array(1)),
      ]) {
        await assert.rejects(ask, (error) => error instanceof PortError && error.status === 0);
      }
    }
  });

  it("expect no request id from Cosmos DB, only a content type", async () => {
    const ofCosmos = standIn.tables({ profile: "cosmos" });
    const headers = { "content-type": JSON_TYPE };
    standIn.answer = { isOthers: true, status: 200, headers, body: JSON.stringify({ value: [] }) };
    assert.deepEqual((await ofCosmos.query("T", {})).entities, []);
    standIn.answer = { isOthers: true, status: 404, headers, body: "{}" };
    assert.equal(await ofCosmos.get("T", key), undefined);
    for (const status of [200, 404]) {
      standIn.answer = {
        isOthers: true,
        status,
        headers: { "content-type": "text/html" },
        body: "<h1>",
      };
      await assert.rejects(() => ofCosmos.get("T", key), /The endpoint is not a table service/);
    }
  });

  it("fail if CORS hides headers such as the continuation from a browser", async () => {
    const id = { "x-ms-request-id": "1" };
    const version = { "x-ms-version": "2019-02-02" };
    const etag = { etag: '"1"', date: "Sun, 22 Nov 2026 10:00:00 GMT" };
    for (const exposed of [id, { ...id, ...version }, { ...id, ...etag }]) {
      const headers = { "content-type": JSON_TYPE, ...exposed };
      const body = JSON.stringify({ value: [] });
      standIn.answer = { isOthers: true, status: 200, headers, body };
      await assert.rejects(() => standIn.tables().query("T", {}), /CORS to expose all headers/);
      standIn.answer = { isOthers: true, status: 204, headers: exposed };
      for (const ask of [
        () => standIn.tables().commit("T", [insert("a")]),
        () => standIn.queues().update("q", receipt, { visibilityMs: 1000 }),
        () => standIn.blobs().put("c", "b", new Uint8Array(1)),
        () => standIn.blobs().get("c", "b"),
      ]) {
        await assert.rejects(ask, /CORS to expose all headers/);
      }
    }
  });

  it("do not mistake an HTML page stored in a blob for a login page", async () => {
    const page = { "content-type": "text/html", "content-length": "13" };
    standIn.answer = { status: 200, headers: { ...page, etag: '"1"' }, body: "<h1>Kept</h1>" };
    const { body } = (await standIn.blobs().get("c", "b")) ?? {};
    assert.equal(new TextDecoder().decode(body), "<h1>Kept</h1>");
  });

  it("do not mistake an intermediary's 404 for a missing entity, table or blob", async () => {
    const Town = entity("Town", {
      version: 1,
      fields: { name: f.string() },
      key: { partition: [k.str("name")], row: [k.lit("town")] },
    });
    const towns = connect({ tables: standIn.tables(), retry: { schedule: [] } }).open(Town);
    for (const type of ["text/html", "text/plain", "application/json"]) {
      const headers = { "content-type": type };
      standIn.answer = { isOthers: true, status: 404, headers, body: '{"message":"Not found"}' };
      for (const ask of [
        () => towns.get({ name: "Bonn" }),
        () => towns.insert({ name: "Bonn" }),
        () => towns.delete({ name: "Bonn" }, { force: true }),
      ]) {
        await assert.rejects(ask, /The endpoint is not a table service/);
      }
      for (const ask of [
        () => standIn.tables().deleteTable("T"),
        () => standIn.blobs().get("c", "b"),
        () => standIn.blobs().delete("c", "b"),
      ]) {
        await assert.rejects(ask, (error) => error instanceof PortError && error.status === 0);
      }
    }
  });

  it("report status 0 for a request that got no answer", async () => {
    // The near end of a connection: nothing listens on its port, and no other socket can be given it.
    const address = standIn.url;
    const held = connectTo(Number(new URL(address).port), "127.0.0.1");
    await once(held, "connect");
    standIn.url = `http://127.0.0.1:${held.localPort}/${ACCOUNT}`;
    try {
      await assert.rejects(standIn.tables().query("T", {}), (error) => {
        assert.ok(error instanceof PortError);
        assert.deepEqual([error.status, error.code], [0, "ECONNREFUSED"]);
        return true;
      });
    } finally {
      standIn.url = address;
      held.destroy();
    }
  });

  it("report status 0 for a blob that ends before its length", async () => {
    const headers = { "content-length": "1000", etag: '"1"' };
    standIn.answer = { status: 200, headers, body: "the first of it" };
    await assert.rejects(
      standIn.blobs().get("c", "b"),
      (error) => error instanceof PortError && error.status === 0 && error.cause !== undefined,
    );
  });
});
