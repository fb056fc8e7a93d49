import assert from "node:assert/strict";
import { once } from "node:events";
import { afterEach, beforeEach, describe, it } from "node:test";
import { handledLater } from "@rowhouse/server/awaitable";
import { HttpServer } from "@rowhouse/server/http/http-server";
import {
  LINGER_MS_MAX,
  LINGER_STALLED_MS_MAX,
  UNWANTED_BYTES_MAX,
} from "@rowhouse/server/http/lane-limits";
import { LingeringCloses } from "@rowhouse/server/http/lingering-close";
import type { BodySource } from "@rowhouse/server/wire/body-source";
import { selfSignedCertificate } from "../support/certificate.ts";
import { HttpConnection } from "./http-connection.ts";

/* What happens to a client that is refused while it sends a body too long to skip. */

const MIB = 1_048_576;
/** More than both systems buffer: once it is sent, the server has read part of it. */
const PUSH = Buffer.alloc(16 * MIB, "x");
const CHUNK = `100000\r\n${"x".repeat(MIB)}\r\n`;

const tls = selfSignedCertificate(new Date());
const kinds = [
  { kind: "node:http", lane: "node", tls: undefined, header: "" },
  { kind: "the fast lane", lane: "fast", tls: undefined, header: "" },
  {
    kind: "node:http behind the fast lane",
    lane: "fast",
    tls: undefined,
    header: "TE: trailers\r\n",
  },
  { kind: "TLS", lane: "fast", tls, header: "" },
] as const;

for (const { kind, header, ...settings } of kinds) {
  describe(`A client refused while it sends its body (${kind})`, () => {
    let now: number;
    let seen: string[];
    let faults: unknown[];
    let lingering: LingeringCloses;
    let server: HttpServer;
    let connection: HttpConnection;
    /** Runs in the handler before the refusal. */
    let prepare: (body: BodySource) => Promise<void> | undefined;
    beforeEach(async () => {
      now = 0;
      seen = [];
      faults = [];
      prepare = () => undefined;
      lingering = new LingeringCloses(() => now);
      const onError = (error: unknown) => faults.push(error);
      const refusal = { status: 403, headers: [], body: "no" };
      server = await HttpServer.listen(
        { host: "127.0.0.1", port: 0, ...settings, lingering, onError },
        ({ target, body }) => {
          seen.push(target);
          return prepare(body)?.then(() => refusal) ?? refusal;
        },
      );
      connection = await HttpConnection.open(new URL(server.url), tls.cert);
    });
    afterEach(async () => {
      connection.destroy();
      await server.close();
      assert.deepEqual([seen, faults], [["/big"], []]);
    });

    /** Starts a request with a body framed like this. */
    function begin(framing: string): void {
      connection.write(`PUT /big HTTP/1.1\r\nHost: h\r\n${header}${framing}\r\n\r\n`);
    }
    const announce = (bytes: number) => begin(`Content-Length: ${bytes}`);

    /** Resolves when the system has accepted all bytes; rejects when the server has closed the connection. */
    function push(bytes: string | Uint8Array): Promise<void> {
      return new Promise((resolve, reject) => {
        connection.socket.write(bytes, (error) => (error ? reject(error) : resolve()));
      });
    }

    /** Checks that the refusal arrives, and no other answer. */
    async function refused(): Promise<void> {
      const answer = await connection.answer();
      assert.deepEqual([answer.status, answer.text], [403, "no"]);
      assert.equal((await connection.rest()).length, 0);
    }

    /** Resolves when the server has closed the connection. */
    async function gone(): Promise<void> {
      connection.socket.on("error", () => {});
      while (!connection.socket.destroyed) await push("x").catch(() => {});
    }

    const preparations: Record<string, typeof prepare> = {
      "at once": () => undefined,
      "after a while": () => new Promise((resolve) => setImmediate(resolve)),
      "while it is read": async (body) => {
        await body.fill(new Uint8Array(2 * MIB));
        handledLater(Promise.resolve(body.fill(new Uint8Array(2 * MIB))));
      },
    };
    for (const [when, preparation] of Object.entries(preparations)) {
      it(`receives the answer although it reads only after sending 40 MiB, if the refusal comes ${when}`, async () => {
        prepare = preparation;
        connection.socket.pause();
        announce(40 * MIB);
        await push(Buffer.alloc(40 * MIB));
        connection.socket.resume();
        const answer = await connection.answer();
        assert.deepEqual([answer.status, answer.text], [403, "no"]);
        assert.equal(answer.header("connection"), "close");
        assert.equal((await connection.rest()).length, 0);
      });
    }

    it("receives the answer although it reads only after sending 40 MiB in chunks", async () => {
      connection.socket.pause();
      begin("Transfer-Encoding: chunked");
      await push(CHUNK.repeat(40));
      connection.socket.resume();
      await refused();
    });

    const bodies: Record<string, [framing: string, sent: string | Uint8Array]> = {
      "of 12 MiB": [`Content-Length: ${12 * MIB}`, Buffer.alloc(12 * MIB)],
      "in chunks": ["Transfer-Encoding: chunked", CHUNK.repeat(12)],
    };
    for (const [length, [framing, sent]] of Object.entries(bodies)) {
      it(`receives the answer after a body ${length}, even with Connection: close`, async () => {
        connection.socket.pause();
        begin(`Connection: close\r\n${framing}`);
        await push(sent);
        connection.socket.resume();
        await refused();
      });
    }

    it("gets no answer to a second request after the body", async () => {
      announce(UNWANTED_BYTES_MAX + MIB);
      await refused();
      await push(Buffer.alloc(UNWANTED_BYTES_MAX + MIB));
      await push("GET /behind HTTP/1.1\r\nHost: h\r\n\r\n");
      connection.end();
      await once(connection.socket, "close");
    });

    it("gets no answer to a second request after chunks that went on for too long", async () => {
      begin("Transfer-Encoding: chunked");
      await push(CHUNK.repeat(UNWANTED_BYTES_MAX / MIB + 2));
      await refused();
      await push("0\r\n\r\nGET /behind HTTP/1.1\r\nHost: h\r\n\r\n");
      connection.end();
      await once(connection.socket, "close");
    });

    it("is cut when its time is over, although it keeps sending", async () => {
      announce(100_000 * MIB);
      await refused();
      while (now < LINGER_MS_MAX) {
        await push(PUSH);
        now += LINGER_STALLED_MS_MAX;
        lingering.sweep();
      }
      await push(PUSH);
      now += 1;
      lingering.sweep();
      await gone();
    });

    it("is cut when it stops sending", async () => {
      announce(100_000 * MIB);
      await refused();
      now += LINGER_STALLED_MS_MAX;
      lingering.sweep();
      await push(PUSH);
      now += LINGER_STALLED_MS_MAX;
      lingering.sweep();
      await push(PUSH);
      lingering.sweep();
      now += LINGER_STALLED_MS_MAX + 1;
      lingering.sweep();
      await gone();
    });

    it("does not keep the server from closing", async (t) => {
      announce(100_000 * MIB);
      await refused();
      // The last resort of close, which cuts all remaining connections.
      t.mock.timers.enable({ apis: ["setTimeout"] });
      await server.close();
    });

    it("receives its answer and is cut by a server that is closing", async (t) => {
      let release = () => {};
      prepare = () => {
        return new Promise((resolve) => {
          release = resolve;
        });
      };
      announce(100_000 * MIB);
      while (seen.length === 0) await new Promise(setImmediate);
      t.mock.timers.enable({ apis: ["setTimeout"] });
      const closed = server.close();
      release();
      await refused();
      await closed;
    });
  });
}
