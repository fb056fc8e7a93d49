import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { FastLane, SWEEP_MS } from "@rowhouse/server/http/fast/fast-lane";
import {
  HEAD_MS_MAX,
  KEEP_ALIVE_SECONDS,
  REQUEST_MS_MAX,
  STALLED_MS_MAX,
} from "@rowhouse/server/http/lane-limits";
import { LingeringCloses } from "@rowhouse/server/http/lingering-close";
import { nodeListener } from "@rowhouse/server/http/node-listener";
import { OpenConnections } from "@rowhouse/server/http/open-connections";
import { PeerMemory } from "@rowhouse/server/http/peer-memory";
import { Echo } from "./echo.ts";
import { HttpConnection } from "./http-connection.ts";
import { turns, until } from "./turns.ts";

const GET = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const POST = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";

describe("The fast lane", () => {
  const echo = new Echo();
  let now = 0;
  const lingering = new LingeringCloses(() => now);
  const memory = new PeerMemory();
  const http = createHttpServer(
    nodeListener({ handle: echo.handle, lingering, memory, onError: () => {} }),
  );
  const lane = new FastLane({
    handle: echo.handle,
    giveAway: (socket) => http.emit("connection", socket),
    onError: (error) => assert.fail(String(error)),
    lingering,
    memory,
    open: new OpenConnections(),
    requestMsMax: REQUEST_MS_MAX,
    clock: () => now,
  });
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    sockets.add(lane.take(socket));
  });
  const url = async () => {
    if (!server.listening)
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  };
  after(() => {
    lane.close();
    lane.destroy();
    server.close();
  });
  const TIMEOUT = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n";

  it("closes a connection a minute after the first byte of a head that trickles in", async () => {
    const connection = await HttpConnection.open(await url());
    const start = GET.slice(0, 20);
    for (const [i, byte] of [...start].entries()) {
      connection.write(byte);
      await arrived(i + 1);
      now += HEAD_MS_MAX / 40;
      lane.sweep();
    }
    now += HEAD_MS_MAX / 2;
    lane.sweep();
    await turns(5);
    assert.equal(connection.socket.readableEnded, false);
    now += SWEEP_MS + 1;
    lane.sweep();
    assert.equal((await connection.rest()).toString(), TIMEOUT);
    connection.destroy();
  });

  it("closes a connection five minutes after the first byte of a request whose body trickles in", async () => {
    const connection = await HttpConnection.open(await url());
    connection.write(POST);
    await arrived(POST.length);
    now += HEAD_MS_MAX + 1;
    lane.sweep();
    connection.write("hel");
    await arrived(POST.length + 3);
    now += REQUEST_MS_MAX - HEAD_MS_MAX + SWEEP_MS;
    lane.sweep();
    assert.equal((await connection.rest()).toString(), TIMEOUT);
    connection.destroy();
  });

  it("closes a connection five minutes after the first byte of a request with a long unread body", async () => {
    const connection = await HttpConnection.open(await url());
    const head = POST.replace("5", "1000000");
    connection.write(head);
    assert.equal((await connection.answer()).text, "/a too large");
    connection.write("hel");
    await arrived(head.length + 3);
    now += REQUEST_MS_MAX;
    lane.sweep();
    await turns(5);
    assert.equal(connection.socket.readableEnded, false);
    now += SWEEP_MS + 1;
    lane.sweep();
    assert.equal((await connection.rest()).length, 0);
    connection.destroy();
  });

  it("limits a connection's idle time while it skips a body behind a streamed answer", async () => {
    echo.answer = () => ({
      status: 200,
      headers: ["Content-Length", "2"],
      body: (async function* () {
        yield Buffer.from("ok");
      })(),
    });
    const connection = await HttpConnection.open(await url());
    connection.write(POST.replace("5", "1000000"));
    assert.equal((await connection.answer()).text, "ok");
    const socket = [...sockets].at(-1)!;
    await until(() => socket.timeout === STALLED_MS_MAX);
    echo.answer = undefined;
    connection.write(`${"x".repeat(1_000_000)}${GET}`);
    assert.equal((await connection.answer()).text, "/a ");
    assert.equal(socket.timeout, 0);
    connection.destroy();
  });

  it("closes an idle connection after the keep-alive time, counted from its last answer", async () => {
    const connection = await HttpConnection.open(await url());
    for (let i = 0; i < 3; i++) {
      now += KEEP_ALIVE_SECONDS * 1000 + SWEEP_MS;
      lane.sweep();
      connection.write(GET);
      assert.equal((await connection.answer()).text, "/a ");
    }
    now += KEEP_ALIVE_SECONDS * 1000 + SWEEP_MS + 1;
    lane.sweep();
    assert.equal((await connection.rest()).length, 0);
    connection.destroy();
  });

  it("starts a request's time at its first byte, however long the connection was idle", async () => {
    const connection = await HttpConnection.open(await url());
    connection.write(GET);
    await connection.answer();
    now += KEEP_ALIVE_SECONDS * 1000;
    lane.sweep();
    connection.write(GET.slice(0, 5));
    await arrived(GET.length + 5);
    now += HEAD_MS_MAX;
    lane.sweep();
    connection.write(GET.slice(5));
    assert.equal((await connection.answer()).text, "/a ");
    connection.destroy();
  });

  it("does not close a connection while its handler is working", async () => {
    let release = () => {};
    echo.gate = new Promise((resolve) => {
      release = resolve;
    });
    const connection = await HttpConnection.open(await url());
    connection.write(GET);
    await arrived(GET.length);
    now += 10 * REQUEST_MS_MAX;
    lane.sweep();
    echo.gate = undefined;
    release();
    assert.equal((await connection.answer()).text, "/a ");
    connection.destroy();
  });

  it("skips a body of two mebibytes in small pieces as too large, and reads one of the permitted size whole", async () => {
    const skipped = GET.repeat((2 * 1024 * 1024) / GET.length);
    const read = Array.from({ length: 1024 }, (_, i) => String.fromCharCode(33 + (i % 90))).join(
      "",
    );
    const seen = echo.seen.length;
    let sent = 0;
    const connection = await HttpConnection.open(await url());
    const write = (text: string) => {
      sent += text.length;
      connection.write(text);
    };
    write(POST.replace("5", String(skipped.length)));
    for (let at = 0; at < skipped.length; at += 1000) write(skipped.slice(at, at + 1000));
    assert.equal((await connection.answer()).text, "/a too large");
    write(POST.replace("5", String(read.length)));
    for (let at = 0; at < read.length; at += 100) {
      await arrived(sent);
      write(read.slice(at, at + 100));
    }
    assert.equal((await connection.answer()).text, `/a ${read}`);
    assert.deepEqual(echo.seen.slice(seen), ["/a", "/a"]);
    connection.destroy();
  });

  /** Resolves once the newest connection has delivered this many bytes to the lane. */
  function arrived(bytes: number): Promise<void> {
    return until(() => [...sockets].at(-1)?.bytesRead === bytes);
  }
});
