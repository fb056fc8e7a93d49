import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import {
  StorageSharedKeyCredential as QueueKeyCredential,
  QueueServiceClient,
} from "@azure/storage-queue";
import { connect, entity, f, isTableError, k } from "@rowhouse/patterns";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureQueues } from "@rowhouse/patterns/azure-queues";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { transport } from "@rowhouse/patterns/transport";
import { type LocalServer, startLocalServer } from "../wire/local-server.ts";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
const CONNECTIONS = 3;
const Item = entity("Item", {
  version: 1,
  fields: { group: f.string(), id: f.int32() },
  key: { partition: [k.str("group")], row: [k.uint("id", 4)] },
});
let server: LocalServer;

before(async () => {
  const here = { host: "127.0.0.1", port: 0 };
  server = await startLocalServer({ listen: { table: here, queue: here, blob: here } });
});
after(() => server.close());

/** The sockets that this process opens to a port while `work` runs. */
async function socketsTo(url: string | undefined, work: () => Promise<unknown>): Promise<Socket[]> {
  const opened: Socket[] = [];
  const listener = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    socket.once("connect", () => {
      if (socket.remotePort === Number(new URL(url ?? "").port)) opened.push(socket);
    });
  };
  subscribe("net.client.socket", listener);
  try {
    await work();
  } finally {
    unsubscribe("net.client.socket", listener);
  }
  return opened;
}

/** The socket's setting of this name, as Node stores it. */
function settingOf(socket: Socket, name: string): unknown {
  const symbol = Object.getOwnPropertySymbols(socket).find((one) => one.description === name);
  return symbol && Reflect.get(socket, symbol);
}

describe("the transport", () => {
  const many = Array.from({ length: 20 }, (_, i) => i);
  const clients = {
    table: (url: string) => {
      const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
      const options = {
        allowInsecureConnection: true,
        ...transport(url, { connections: CONNECTIONS }),
      };
      const tables = azureTables(new TableServiceClient(url, credential, options));
      const db = connect({ tables, limit: { partition: 64 } });
      return async () => {
        await db.createTables(Item);
        const items = db.open(Item);
        await Promise.all(many.map((id) => items.insert({ group: "a", id })));
        await Promise.all(many.map((id) => items.get({ group: "a", id })));
      };
    },
    queue: (url: string) => {
      const options = { ...singleTry, ...transport(url, { connections: CONNECTIONS }) };
      const queues = azureQueues(
        new QueueServiceClient(url, new QueueKeyCredential(ACCOUNT, KEY), options),
      );
      return async () => {
        await queues.createQueue("items");
        await Promise.all(many.map((i) => queues.send("items", `${i}`)));
      };
    },
    blob: (url: string) => {
      const options = { ...singleTry, ...transport(url, { connections: CONNECTIONS }) };
      const blobs = azureBlobs(
        new BlobServiceClient(url, new StorageSharedKeyCredential(ACCOUNT, KEY), options),
      );
      return async () => {
        await blobs.createContainer("items");
        await Promise.all(many.map((i) => blobs.put("items", `${i}`, new Uint8Array([i]))));
      };
    },
  };

  for (const service of ["table", "queue", "blob"] as const) {
    it(`limits and configures the sockets of the ${service} client`, async () => {
      const endpoint = server.urls[service];
      const work = clients[service](`${endpoint}/${ACCOUNT}`);
      const sockets = await socketsTo(endpoint, async () => {
        await work();
        // The connections are still open.
        await new Promise((resolve) => setImmediate(resolve));
      });
      assert.equal(sockets.length, CONNECTIONS);
      for (const socket of sockets) {
        assert.equal(settingOf(socket, "kSetNoDelay"), true);
        assert.equal(settingOf(socket, "kSetKeepAlive"), true);
        assert.equal(socket.destroyed, false);
        socket.destroy();
      }
    });
  }

  it("speaks TLS if the endpoint does, and refuses invalid options", () => {
    assert.ok(transport("https://acme.table.core.windows.net").agent instanceof HttpsAgent);
    const isRefused = (error: unknown) => isTableError(error, "invalid-definition");
    assert.throws(() => transport("ftp://acme"), isRefused);
    for (const options of [{ connections: 0 }, { connections: 1.5 }, { idleMs: Number.NaN }]) {
      assert.throws(() => transport("http://localhost", options), isRefused);
    }
  });
});
