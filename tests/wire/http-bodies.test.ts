import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { HttpServer } from "@rowhouse/server/http/http-server";
import type { Handle } from "@rowhouse/server/http/lane-limits";
import { openServices } from "@rowhouse/server/server";
import { BodyAborted } from "@rowhouse/server/wire/body-source";
import type { WireResponse } from "@rowhouse/server/wire/operation";
import { openTestEngine } from "../support/test-engine.ts";
import { HttpConnection } from "./http-connection.ts";
import { startLocalServer } from "./local-server.ts";
import { KEY } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";

/*
 * Bodies that are read as they arrive, in both lanes. `/take/N` repeatedly reads the body into memory of N
 * bytes and answers its digest; `/refuse` answers immediately, `/begin` once it has part of the body.
 */

const LENGTH = 3_000_001;
const HALF = 1_500_000;
const TAKE = "/take/";
const NEXT = "GET /refuse HTTP/1.1\r\nHost: h\r\n\r\n";

it("Entities returned by inserts that share a flush keep no memory that others wait for", async () => {
  const services = await openServices({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine: await openTestEngine(),
    services: ["table"],
  });
  const bodies: WireResponse["body"][] = [];
  const server = await HttpServer.listen(
    { host: "127.0.0.1", port: 0, tls: undefined, lane: "fast", onError: assert.ifError },
    async (request) => {
      const answer = await services.handles.get("table")!(request);
      bodies.push(answer.body);
      return answer;
    },
  );
  const wire = new TableWire({
    url: `${server.url}/${DEVELOPMENT_ACCOUNT.name}`,
    account: DEVELOPMENT_ACCOUNT.name,
    key: KEY,
  });
  await wire.send("POST", "/Tables", { body: { TableName: "Shared" } });
  const inserted = await wire.send("POST", "/Shared", { body: { PartitionKey: "p", RowKey: "r" } });
  assert.equal(inserted.status, 201);
  assert.ok(bodies.at(-1) instanceof Uint8Array);
  wire.close();
  await server.close();
  await services.close();
});

for (const lane of ["node", "fast"] as const) {
  it(`A request whose body arrives after its timeout is not executed (${lane})`, async () => {
    let now = Date.now();
    let noticed = () => {};
    const read = () => {
      noticed();
      return now;
    };
    const services = await openServices({
      accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
      engine: await openTestEngine(),
      services: ["table"],
      clock: { now: () => now },
    });
    const handle: Handle = (request) => {
      noticed();
      return services.handles.get("table")!(request);
    };
    const server = await HttpServer.listen(
      { host: "127.0.0.1", port: 0, tls: undefined, lane, clock: read, onError: assert.ifError },
      handle,
    );
    const wire = new TableWire({
      url: `${server.url}/${DEVELOPMENT_ACCOUNT.name}`,
      account: DEVELOPMENT_ACCOUNT.name,
      key: KEY,
    });
    await wire.send("POST", "/Tables", { body: { TableName: "Late" } });
    const connection = await HttpConnection.open(new URL(server.url));
    const insertion = (path: string) =>
      wire.bytes("POST", path, { body: { PartitionKey: "p", RowKey: "r" } });
    const late = insertion("/Late?timeout=1");
    // node:http passes a request on with its head; the fast lane then looks at its clock.
    const begun = new Promise<void>((resolve) => {
      noticed = resolve;
    });
    connection.write(late.subarray(0, -1));
    await begun;
    now += 1001;
    connection.write(late.subarray(-1));
    assert.equal((await connection.answer()).status, 500);
    connection.write(insertion("/Late?timeout=1"));
    assert.equal((await connection.answer()).status, 201);
    connection.destroy();
    wire.close();
    await server.close();
    await services.close();
  });

  describe(`A body read as it arrives (${lane})`, () => {
    let server: HttpServer;
    let faults: unknown[];
    let begun: Promise<void>;
    let aborted: Promise<unknown>;
    const open = () => HttpConnection.open(new URL(server.url));

    beforeEach(async () => {
      faults = [];
      let begin = () => {};
      let abort = (_error: unknown) => {};
      begun = new Promise((resolve) => {
        begin = resolve;
      });
      aborted = new Promise((resolve) => {
        abort = resolve;
      });
      const handle: Handle = async ({ body, target }) => {
        if (target === "/refuse") return { status: 409, headers: [], body: "no" };
        if (target === "/begin") {
          await body.fill(new Uint8Array(1000));
          return { status: 409, headers: [], body: "no more" };
        }
        const digest = createHash("sha256");
        const memory = new Uint8Array(Number(target.slice(TAKE.length)));
        try {
          for (let filled = memory.length; filled === memory.length; ) {
            const filling = body.fill(memory);
            begin();
            filled = await filling;
            digest.update(memory.subarray(0, filled));
            // More bytes arrive before the next are requested.
            await new Promise(setImmediate);
          }
        } catch (error) {
          abort(error);
          throw error;
        }
        return { status: 200, headers: [], body: digest.digest("hex") };
      };
      const onError = (error: unknown) => faults.push(error);
      server = await HttpServer.listen(
        { host: "127.0.0.1", port: 0, tls: undefined, lane, carriesStreams: true, onError },
        handle,
      );
    });
    afterEach(async () => {
      await server.close();
      assert.deepEqual(faults, []);
    });

    it("is read to its last byte and no further, however it is split", async () => {
      const body = patterned(LENGTH);
      const digest = createHash("sha256").update(body).digest("hex");
      for (const pieceBytes of [70_001, 1_000_000, LENGTH]) {
        const connection = await open();
        const bytes = Buffer.concat([
          Buffer.from(head("/take/100000", LENGTH)),
          body,
          Buffer.from(NEXT),
        ]);
        for (let at = 0; at < bytes.length; at += pieceBytes) {
          connection.write(bytes.subarray(at, at + pieceBytes));
          await new Promise(setImmediate);
        }
        assert.equal((await connection.answer()).text, digest, `in pieces of ${pieceBytes}`);
        assert.equal((await connection.answer()).text, "no");
        connection.destroy();
      }
    });

    it("does not swallow the next request, even if the buffer has room for it", async () => {
      const body = patterned(LENGTH);
      const connection = await open();
      connection.write(head("/take/4000000", LENGTH));
      connection.write(body.subarray(0, 2_000_000));
      await begun;
      connection.write(Buffer.concat([body.subarray(2_000_000), Buffer.from(NEXT)]));
      const { text } = await connection.answer();
      assert.equal(text, createHash("sha256").update(body).digest("hex"));
      assert.equal((await connection.answer()).text, "no");
      connection.destroy();
    });

    it("is not mixed up with those of other connections", async () => {
      await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          const body = patterned(LENGTH + i);
          const connection = await open();
          for (let round = 0; round < 3; round++) {
            connection.write(head("/take/100000", body.length));
            connection.write(body);
            const { text } = await connection.answer();
            assert.equal(text, createHash("sha256").update(body).digest("hex"));
          }
          connection.destroy();
        }),
      );
    });

    it("that the handler does not read is skipped, and the next request is answered", async () => {
      const connection = await open();
      connection.write(head("/refuse", LENGTH));
      assert.equal((await connection.answer()).text, "no");
      connection.write(patterned(LENGTH));
      connection.write(NEXT);
      assert.equal((await connection.answer()).text, "no");
      connection.destroy();
    });

    it("that the handler reads only in part is skipped too", async () => {
      const connection = await open();
      connection.write(head("/begin", LENGTH));
      connection.write(patterned(HALF));
      assert.equal((await connection.answer()).text, "no more");
      connection.write(patterned(LENGTH - HALF));
      connection.write(NEXT);
      assert.equal((await connection.answer()).text, "no");
      connection.destroy();
    });

    it("that is unread and too long to skip makes the server close the connection after its answer", async () => {
      const connection = await open();
      connection.write(head("/refuse", 1_000_000_000));
      const answer = await connection.answer();
      assert.equal(answer.text, "no");
      assert.equal(answer.header("connection"), "close");
      connection.destroy();
    });

    for (const how of ["destroy", "end"] as const) {
      it(`makes its reader fail when the client disconnects (${how})`, async () => {
        const connection = await open();
        connection.write(head("/take/100000", LENGTH));
        connection.write(patterned(LENGTH - 1));
        await begun;
        connection[how]();
        assert.ok((await aborted) instanceof BodyAborted);
        connection.destroy();
      });
    }
  });
}

describe("A long body of a request without credentials", () => {
  for (const lane of ["node", "fast"] as const) {
    it(`is refused before it is read (${lane})`, async () => {
      const any = { host: "127.0.0.1", port: 0 };
      const server = await startLocalServer({ lane, listen: { queue: any, table: any } });
      for (const target of ["/devstoreaccount1/People", "/devstoreaccount1/work/messages"]) {
        const url = target.endsWith("messages") ? server.urls.queue : server.urls.table;
        const connection = await HttpConnection.open(new URL(url ?? ""));
        connection.write(head(target, 4_000_000).replace("PUT", "POST"));
        assert.ok([401, 403, 404].includes((await connection.answer()).status));
        connection.destroy();
      }
      await server.close();
    });
  }
});

function head(target: string, bodyBytes: number): string {
  return `PUT ${target} HTTP/1.1\r\nHost: h\r\nContent-Length: ${bodyBytes}\r\n\r\n`;
}

/** No two parts of it are alike. */
function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = (i * 31 + length) ^ (i >>> 9) ^ ((i >>> 17) * 101);
  return bytes;
}
