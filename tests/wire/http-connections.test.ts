import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { afterEach, beforeEach, describe, it } from "node:test";
import { HttpServer } from "@rowhouse/server/http/http-server";
import { PeerMemory } from "@rowhouse/server/http/peer-memory";
import { HEAD_ROOM_BYTES, JsonBody, takePage } from "@rowhouse/server/table/json-body";
import { Echo } from "./echo.ts";
import { HttpConnection } from "./http-connection.ts";
import { turns, until } from "./turns.ts";

/* How connections live and end, in both lanes, over a handler that the tests control. */

const GET = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const ASKED = 10_000;
const CHUNK = `10000\r\n${"x".repeat(65_536)}\r\n`;
const POST = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";

for (const lane of ["node", "fast"] as const) {
  describe(`A connection (${lane})`, () => {
    let echo: Echo;
    let server: HttpServer;
    let faults: unknown[];
    let url: URL;
    const open = () => HttpConnection.open(url);
    beforeEach(async () => {
      echo = new Echo();
      faults = [];
      server = await HttpServer.listen(
        {
          host: "127.0.0.1",
          port: 0,
          tls: undefined,
          lane,
          onError: (error) => faults.push(error),
        },
        echo.handle,
      );
      url = new URL(server.url);
    });
    afterEach(async () => {
      await server.close();
      assert.deepEqual(faults, []);
    });

    it("carries one request after another, pipelined or not", async () => {
      const connection = await open();
      for (let i = 0; i < 3; i++) {
        connection.write(GET);
        const answer = await connection.answer();
        assert.equal(answer.text, "/a ");
        assert.equal(answer.header("connection"), "keep-alive");
        assert.equal(answer.header("keep-alive"), "timeout=75");
      }
      connection.write(
        GET.replace("/a", "/1") + POST.replace("/a", "/2") + "hello" + GET.replace("/a", "/3"),
      );
      for (const text of ["/1 ", "/2 hello", "/3 "])
        assert.equal((await connection.answer()).text, text);
      connection.destroy();
    });

    it("accepts a target in absolute form, as proxies send it, and uses its path", async () => {
      const connection = await open();
      for (const [target, path] of [
        ["http://h/a?b=http://c/d", "/a?b=http://c/d"],
        ["HTTPS://h:10002//a", "//a"],
        ["http://h", "/"],
        ["http://h/", "/"],
        ["http://h?comp=list", "/?comp=list"],
      ] as const) {
        connection.write(GET.replace("/a", target));
        assert.equal((await connection.answer()).text, `${path} `);
      }
      connection.destroy();
    });

    it("processes its requests one after the other", async () => {
      let release = () => {};
      echo.gate = new Promise((resolve) => {
        release = resolve;
      });
      const connection = await open();
      connection.write(GET.replace("/a", "/1") + GET.replace("/a", "/2"));
      await until(() => echo.seen.length > 0);
      await turns(10);
      assert.deepEqual(echo.seen, ["/1"]);
      echo.gate = undefined;
      release();
      for (const text of ["/1 ", "/2 "]) assert.equal((await connection.answer()).text, text);
      connection.destroy();
    });

    it("keeps the body of a waiting request intact while bytes arrive on other connections", async () => {
      let release = () => {};
      echo.gate = new Promise((resolve) => {
        release = resolve;
      });
      const connections = [];
      for (const word of ["hello", "world"]) {
        const connection = await open();
        connections.push(connection);
        connection.write(POST + word);
        await until(() => echo.seen.length === connections.length);
      }
      release();
      const answers = await Promise.all(connections.map((each) => each.answer()));
      assert.deepEqual(
        answers.map(({ text }) => text),
        ["/a hello", "/a world"],
      );
      for (const connection of connections) connection.destroy();
    });

    it("is answered although its client has ended its sending side", async () => {
      let release = () => {};
      echo.gate = new Promise((resolve) => {
        release = resolve;
      });
      const connection = await open();
      connection.write(`${POST}hello`);
      connection.end();
      await until(() => echo.seen.length > 0);
      await turns(10);
      release();
      assert.match((await connection.rest()).toString(), /^HTTP\/1\.1 200 OK\r\n.*\/a hello$/s);
    });

    for (const [what, second, path] of [
      ["on both lanes", GET.replace("Host", "TE: trailers\r\nHost").replace("/a", "/2"), "/2"],
      ["in raw UTF-8", GET.replace("/a", "/\u00e9"), "/%C3%A9"],
    ] as const) {
      it(`is answered every request that its client sent before ending its side, ${what}`, async () => {
        let release = () => {};
        echo.gate = new Promise((resolve) => {
          release = resolve;
        });
        const connection = await open();
        connection.write(GET.replace("/a", "/1") + second + second);
        connection.end();
        await until(() => echo.seen.length > 0);
        await turns(10);
        echo.gate = undefined;
        release();
        const answers = (await connection.rest()).toString();
        assert.deepEqual(answers.match(/(?<=\r\n\r\n)\S+/g), ["/1", path, path]);
      });
    }

    it("that ends in the middle of a request is answered 400", async () => {
      for (const part of ["G", GET.slice(0, -3), POST, `${POST}hell`]) {
        const connection = await open();
        connection.write(part);
        connection.end();
        const said = (await connection.rest()).toString();
        assert.equal(
          said,
          "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
          JSON.stringify(part),
        );
      }
      assert.deepEqual(echo.seen.length, echo.aborted.length);
    });

    it("that breaks during a request body does not disturb other connections", async () => {
      const other = await open();
      for (let i = 0; i < 5; i++) {
        const connection = await open();
        connection.write(`${POST}hel`);
        await turns(3);
        connection.socket.resetAndDestroy();
      }
      other.write(GET);
      assert.equal((await other.answer()).text, "/a ");
      other.destroy();
    });

    it("that breaks during an answer does not disturb other connections", async () => {
      echo.content = Buffer.alloc(3 * 1024 * 1024, "x");
      for (let i = 0; i < 3; i++) {
        const connection = await open();
        connection.write(GET + GET + GET);
        await until(() => connection.socket.bytesRead > 0);
        connection.socket.resetAndDestroy();
      }
      const other = await open();
      other.write(GET);
      assert.equal((await other.answer()).body.length, echo.content.length);
      other.destroy();
    });

    it("that names two hosts is refused, whatever they are, and closed", async () => {
      for (const host of ["h", "other"]) {
        const connection = await open();
        connection.write(`GET /a HTTP/1.1\r\nHost: h\r\nHOST: ${host}\r\n\r\n`);
        const answer = await connection.answer();
        assert.deepEqual([answer.status, answer.header("connection")], [400, "close"]);
        assert.equal((await connection.rest()).length, 0);
        connection.destroy();
      }
      assert.equal(echo.seen.length, 0);
    });

    it("whose client does not read is sent no more answers until it does", async () => {
      echo.content = Buffer.alloc(512 * 1024, "x");
      const connection = await open();
      connection.socket.pause();
      connection.write(GET.repeat(40));
      await until(() => echo.seen.length > 0);
      await turns(200);
      assert.equal(echo.seen.length < 40, true, `${echo.seen.length} answers were made`);
      connection.socket.resume();
      for (let i = 0; i < 40; i++) {
        assert.equal((await connection.answer()).body.length, echo.content.length);
      }
      connection.destroy();
    });

    it("whose client does not read many small answers receives all of them, whole, once it does", async () => {
      const connection = await open();
      connection.socket.pause();
      const count = 2_000;
      const name = (i: number) => `${i}`.padEnd(8_000, "x");
      for (let i = 0; i < count; i++) connection.write(GET.replace("a", name(i)));
      await until(() => echo.seen.length > 0);
      await turns(200);
      assert.equal(echo.seen.length < count, true, `${echo.seen.length} answers were made`);
      connection.socket.resume();
      for (let i = 0; i < count; i++) {
        assert.equal((await connection.answer()).text, `/${name(i)} `);
      }
      connection.destroy();
    });

    it("whose client does not read is cut when unread answers take too much memory", async () => {
      // One address may have half of it.
      const memory = new PeerMemory({ bytesMax: 40_000_000, sweeps: false });
      const body = Buffer.alloc(16_000_000, "x");
      const large = await HttpServer.listen(
        {
          host: "127.0.0.1",
          port: 0,
          tls: undefined,
          lane,
          memory,
          onError: (fault) => faults.push(fault),
        },
        () => ({ status: 200, headers: [], body }),
      );
      const ask = async () => {
        const connection = await HttpConnection.open(new URL(large.url));
        connection.socket.pause();
        const before = memory.bytes;
        connection.write(GET);
        await until(() => memory.bytes !== before);
        for (let i = 0; i < 20; i++) memory.sweep();
        return connection;
      };
      const unreading = [await ask()];
      const reading = await HttpConnection.open(new URL(large.url));
      reading.write(GET);
      assert.equal((await reading.answer()).body.length, body.length);
      for (const connection of unreading) {
        connection.socket.resume();
        await assert.rejects(connection.answer(), /The connection ended/);
      }
      reading.destroy();
      await until(() => memory.bytes === 0);
      await large.close();
    });

    it("that breaks during a streamed answer ends the source of the stream", async () => {
      let begun = 0;
      let ended = 0;
      async function* endless(): AsyncGenerator<Uint8Array> {
        begun++;
        try {
          for (;;) yield Buffer.alloc(300_000, "x");
        } finally {
          ended++;
        }
      }
      const pouring = await HttpServer.listen(
        {
          host: "127.0.0.1",
          port: 0,
          tls: undefined,
          lane,
          onError: (fault) => faults.push(fault),
        },
        () => ({ status: 200, headers: ["Content-Length", "1000000000"], body: endless() }),
      );
      for (const reads of [true, false]) {
        const connection = await HttpConnection.open(new URL(pouring.url));
        if (!reads) connection.socket.pause();
        const before = begun;
        connection.write(GET);
        await until(() => begun > before && (!reads || connection.socket.bytesRead > 0));
        connection.socket.resetAndDestroy();
        await until(() => ended === begun);
      }
      await pouring.close();
      assert.deepEqual([begun, faults], [2, []]);
    });

    /** Answers each request with a page filled with the letter that it names. */
    function lendingServer(bytes: number): Promise<HttpServer> {
      return HttpServer.listen(
        {
          host: "127.0.0.1",
          port: 0,
          tls: undefined,
          lane,
          onError: (fault) => faults.push(fault),
        },
        ({ target }) => {
          const page = takePage();
          page.reserve(HEAD_ROOM_BYTES, bytes);
          page.bytes.fill(target.slice(1), HEAD_ROOM_BYTES, HEAD_ROOM_BYTES + bytes);
          const body = new JsonBody(page, HEAD_ROOM_BYTES + bytes);
          return { status: 200, headers: ["Content-Length", String(bytes)], body };
        },
      );
    }

    for (const bytes of [10_000, 100_000]) {
      it(`receives the pages that it requested, of ${bytes} bytes, while many other connections request pages`, async () => {
        const lending = await lendingServer(bytes);
        const connections = await Promise.all(
          Array.from({ length: 16 }, () => HttpConnection.open(new URL(lending.url))),
        );
        for (let round = 0; round < 20; round++) {
          const letterOf = (i: number) => String.fromCharCode(97 + ((i + round) % 26));
          for (const [i, connection] of connections.entries()) {
            // Some request the next page before they were answered.
            connection.write(GET.replace("/a", `/${letterOf(i)}`).repeat(1 + (i % 2)));
          }
          for (const [i, connection] of connections.entries()) {
            for (let asked = 0; asked < 1 + (i % 2); asked++) {
              assert.equal((await connection.answer()).text, letterOf(i).repeat(bytes));
            }
          }
        }
        for (const connection of connections) connection.destroy();
        await lending.close();
        assert.deepEqual(faults, []);
      });
    }

    // More than the system takes for a client that does not read.
    for (const [bytes, rounds] of [
      [30_000, 20],
      [1_500_000, 1],
    ] as const) {
      it(`keeps a lent page of ${bytes} bytes unchanged until its client has received it`, async () => {
        const letters = "abcdefghijklmnopqrstuvwxyz".repeat(rounds);
        const lending = await lendingServer(bytes);
        const get = (letter: string) => GET.replace("/a", `/${letter}`);
        const slow = await HttpConnection.open(new URL(lending.url));
        slow.socket.pause();
        slow.write([...letters].map(get).join(""));
        const quick = await HttpConnection.open(new URL(lending.url));
        for (const letter of letters.toUpperCase()) {
          quick.write(get(letter));
          assert.equal((await quick.answer()).text, letter.repeat(bytes));
        }
        slow.socket.resume();
        for (const letter of letters) {
          assert.equal((await slow.answer()).text, letter.repeat(bytes));
        }
        slow.destroy();
        quick.destroy();
        await lending.close();
        assert.deepEqual(faults, []);
      });
    }

    it("is refused a body over the handler's limit before the body arrives, and closed", async () => {
      const connection = await open();
      connection.write("POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n");
      const answer = await connection.answer();
      assert.equal(answer.text, "/big too large");
      assert.equal(answer.header("connection"), "close");
      await connection.rest();
      connection.destroy();
    });

    /** Answered while chunks still arrive: as too large, or by a handler that never reads them. */
    const chunkedRequests: Record<string, () => void> = {
      "too large": () => {},
      unwanted: () => {
        echo.answer = () => {
          echo.answer = undefined;
          return { status: 200, headers: [], body: "/big unwanted" };
        };
      },
    };
    for (const [what, prepare] of Object.entries(chunkedRequests)) {
      const begin = async () => {
        prepare();
        const connection = await open();
        connection.write(
          `POST /big HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n${CHUNK}`,
        );
        assert.equal((await connection.answer()).text, `/big ${what}`);
        return connection;
      };

      it(`stays open after a chunked body that is ${what}`, async () => {
        const connection = await begin();
        for (let sent = 1; sent < 80; sent++) connection.write(CHUNK);
        connection.write(`0\r\n\r\n${GET}`);
        assert.equal((await connection.answer()).text, "/a ");
        connection.destroy();
      });

      it(`is closed when a chunked body that is ${what} does not end`, async () => {
        const connection = await begin();
        // Far more than the server skips and both systems buffer.
        for (let sent = 1; sent < 2_000 && !connection.socket.readableEnded; sent++) {
          await new Promise<void>((taken) => connection.socket.write(CHUNK, () => taken()));
        }
        await connection.rest();
        assert.ok(connection.socket.readableEnded);
        connection.destroy();
      });
    }

    it("stays open after a body that is only slightly too large", async () => {
      const connection = await open();
      const length = 5 * 1024 * 1024;
      connection.write(POST.replace("/a", "/big").replace("5", String(length)));
      for (let sent = 0; sent < length; sent += 65_536) connection.write("x".repeat(65_536));
      connection.write(GET);
      assert.equal((await connection.answer()).text, "/big too large");
      assert.equal((await connection.answer()).text, "/a ");
      connection.destroy();
    });

    it("stays open after a body that the handler does not read", async () => {
      const handle = echo.handle;
      const ignoring = await HttpServer.listen(
        {
          host: "127.0.0.1",
          port: 0,
          tls: undefined,
          lane,
          onError: (error) => faults.push(error),
        },
        (request) => {
          echo.seen.push(request.target);
          return request.target === "/ignored" ? { status: 204, headers: [] } : handle(request);
        },
      );
      const connection = await HttpConnection.open(new URL(ignoring.url));
      connection.write(`${POST.replace("/a", "/ignored")}hello${GET}`);
      assert.equal((await connection.answer()).status, 204);
      assert.equal((await connection.answer()).text, "/a ");
      connection.destroy();
      await ignoring.close();
    });

    it("with thousands of pipelined requests is read no faster than it is answered", async () => {
      let taken = 0;
      const count = () => taken++;
      subscribe("http.server.request.start", count);
      let release = () => {};
      echo.gate = new Promise((resolve) => {
        release = resolve;
      });
      const connection = await open();
      // The fast lane hands this header to node:http, with all requests after it.
      const asked = GET.replace("Host", "TE: trailers\r\nHost");
      connection.write(asked.repeat(ASKED));
      await until(() => taken > 0);
      await turns(200);
      assert.ok(taken < ASKED / 3, `${taken} requests were taken before the first was answered.`);
      echo.gate = undefined;
      release();
      for (let i = 0; i < ASKED; i++) assert.equal((await connection.answer()).text, "/a ");
      assert.equal(taken, ASKED);
      unsubscribe("http.server.request.start", count);
      connection.destroy();
    });

    it("that is idle does not keep a server from closing, and one with a request in progress does", async () => {
      const idle = await open();
      idle.write(GET);
      await idle.answer();
      const given = await open();
      given.write(
        `${GET.replace("GET", "POST").replace("Host", "Transfer-Encoding: chunked\r\nHost")}0\r\n\r\n`,
      );
      assert.equal((await given.answer()).text, "/a ");
      const silent = await open();
      let release = () => {};
      echo.gate = new Promise((resolve) => {
        release = resolve;
      });
      const busy = await open();
      busy.write(GET);
      await until(() => echo.seen.length === 3);
      let isClosed = false;
      const closed = server.close().then(() => {
        isClosed = true;
      });
      for (const connection of [idle, given, silent])
        assert.equal((await connection.rest()).length, 0);
      assert.equal(isClosed, false);
      release();
      assert.equal((await busy.answer()).text, "/a ");
      await busy.rest();
      await closed;
      await assert.rejects(open());
      for (const connection of [idle, given, silent, busy]) connection.destroy();
    });

    it("is cut when the handler fails, and the fault is reported", async () => {
      const failing = await HttpServer.listen(
        {
          host: "127.0.0.1",
          port: 0,
          tls: undefined,
          lane,
          onError: (error) => faults.push(String(error)),
        },
        ({ target }) => {
          if (target === "/sync") throw new Error("sync");
          if (target === "/async") return Promise.reject(new Error("async"));
          return { status: 200, headers: ["Injected", "a\r\nb: c"], body: "" };
        },
      );
      for (const target of ["/sync", "/async", "/injected"]) {
        const connection = await HttpConnection.open(new URL(failing.url));
        connection.write(GET.replace("/a", target));
        assert.equal((await connection.rest()).length, 0);
        connection.destroy();
      }
      await failing.close();
      assert.equal(faults.length, 3);
      assert.deepEqual(faults.slice(0, 2), ["Error: sync", "Error: async"]);
      faults = [];
    });
  });
}
