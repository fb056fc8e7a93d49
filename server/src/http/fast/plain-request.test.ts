import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { readPlainRequest } from "./plain-request.ts";

const HEAD = "GET /a?b=c HTTP/1.1\r\nHost: h\r\nx-ms-date: now \r\n\r\n";

describe("A plain request", () => {
  it("is parsed into its verb, target and headers", () => {
    const read = readPlainRequest(Buffer.from(HEAD), 0, 100);
    assert.ok(read.kind === "request");
    assert.equal(read.request.verb, "GET");
    assert.equal(read.request.target, "/a?b=c");
    assert.deepEqual(read.request.headers.raw, ["Host", "h", "x-ms-date", "now"]);
    assert.equal(read.request.end, HEAD.length);
  });

  it("ends after its Content-Length, where the next request begins", () => {
    const bytes = Buffer.from(`POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc${HEAD}`);
    const first = readPlainRequest(bytes, 0, 100);
    assert.ok(first.kind === "request");
    assert.equal(bytes.toString("latin1", first.request.bodyStart, first.request.end), "abc");
    assert.equal(readPlainRequest(bytes, first.request.end, 100).kind, "request");
  });

  it("is complete before the end of a long body", () => {
    const head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000000\r\n\r\n";
    const read = readPlainRequest(Buffer.from(head), 0, 100);
    assert.ok(read.kind === "request");
    assert.equal(read.request.end, head.length + 5_000_000_000);
  });

  it("may contain Connection: keep-alive in any case, and up to 200 headers", () => {
    const kept = `GET / HTTP/1.1\r\nHost: h\r\nconnection: Keep-Alive\r\n${"a: b\r\n".repeat(198)}\r\n`;
    assert.equal(readPlainRequest(Buffer.from(kept), 0, 100).kind, "request");
  });

  it("is incomplete until its last byte, wherever it is cut", () => {
    const whole = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    for (let length = 1; length < whole.length; length++) {
      assert.equal(
        readPlainRequest(Buffer.from(whole.slice(0, length)), 0, 100).kind,
        "incomplete",
      );
    }
  });

  it("has a known length once its head has arrived, wherever it begins", () => {
    const whole = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    for (const before of ["", HEAD]) {
      const read = readPlainRequest(Buffer.from(before + whole.slice(0, -1)), before.length, 100);
      assert.deepEqual(read, { kind: "incomplete", bytes: whole.length });
    }
  });

  const beginnings: Record<string, string> = {
    "a TLS greeting": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "another protocol's line": "SSH-2.0-OpenSSH_9.2\r\n",
    "a request of bare line feeds": "GET / HTTP/1.1\nHost: h\n\n",
    "a header that ends with a bare line feed": "GET / HTTP/1.1\r\nHost: h\r\nAccept: */*\n",
    "bare line feeds after a valid first line": "GET / HTTP/1.1\r\nHost: h\n\n",
    "the first line of another version": "GET / HTTP/1.0\r\n",
    "an empty line": "\r\n",
    "a head that is already too long": `GET / HTTP/1.1\r\nHost: h\r\na: ${"x".repeat(16_384)}`,
  };
  for (const [what, head] of Object.entries(beginnings)) {
    it(`is not expected after ${what}`, () => {
      const before = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
      const bytes = Buffer.from(before + head, "latin1");
      assert.equal(readPlainRequest(bytes.subarray(before.length), 0, 100).kind, "unknown");
      assert.equal(readPlainRequest(bytes, before.length, 100).kind, "unknown");
    });
  }

  const unknown: Record<string, string> = {
    "another version": "GET / HTTP/1.0\r\nHost: h\r\n\r\n",
    "an unknown method": "BREW / HTTP/1.1\r\nHost: h\r\n\r\n",
    "an absolute target": "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "white space in the target": "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
    "a folded header": "GET / HTTP/1.1\r\nHost: h\r\na: b\r\n c\r\n\r\n",
    "white space before the colon": "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
    "a header without a colon": "GET / HTTP/1.1\r\nHost: h\r\nnothing\r\n\r\n",
    "a bare line feed": "GET / HTTP/1.1\r\nHost: h\r\na: b\nc: d\r\n\r\n",
    "a bare carriage return": "GET / HTTP/1.1\r\nHost: h\r\na: b\rc: d\r\n\r\n",
    "a zero byte": "GET / HTTP/1.1\r\nHost: h\r\na: \0\r\n\r\n",
    "bytes that are not ASCII": "GET / HTTP/1.1\r\nHost: h\r\na: \u00e9\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\na: b\r\n\r\n",
    "two hosts": "GET / HTTP/1.1\r\nHost: h\r\nhost: i\r\n\r\n",
    "two lengths": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\na",
    "a length with a sign": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\na",
    "a list of lengths": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\na",
    "a transfer encoding":
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a transfer encoding in any case": "POST / HTTP/1.1\r\nHost: h\r\ntRANSFER-eNCODING: x\r\n\r\n",
    "an expectation": "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n",
    "an upgrade": "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n",
    "a connection to be closed": "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "a line break before it": "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "an empty length": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
    "a length of thirteen digits":
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n",
    "more than 200 headers": `GET / HTTP/1.1\r\nHost: h\r\n${"a: b\r\n".repeat(200)}\r\n`,
    "a head that is too long": `GET / HTTP/1.1\r\nHost: h\r\na: ${"x".repeat(20_000)}\r\n\r\n`,
  };
  for (const [what, text] of Object.entries(unknown)) {
    it(`is not one with ${what}`, () => {
      assert.equal(readPlainRequest(Buffer.from(text, "latin1"), 0, 100).kind, "unknown");
    });
  }

  it("never ends after the last byte received", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(60), (noise, cut) => {
        const bytes = Buffer.concat([Buffer.from(HEAD).subarray(0, cut), noise]);
        const read = readPlainRequest(bytes, 0, 100);
        if (read.kind === "request") assert.ok(read.request.end <= bytes.length);
      }),
    );
  });
});
