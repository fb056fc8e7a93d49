import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HeaderList, type RawRequest } from "../http/raw-request.ts";
import { insightPages, jsonPage } from "./insight-pages.ts";

const PATH = "/rowhouse/partitions";
const pages = new Map([
  [PATH, jsonPage((query) => ({ top: query.get("top") }))],
  ["/metrics", { contentType: "text/plain", open: true, print: () => "up 1\n" }],
]);

describe("Pages that show keys", () => {
  it("answer this machine", () => {
    assert.equal(statusOf({}), 200);
    assert.equal(statusOf({ remoteAddress: "::1", host: "[::1]:10002" }), 200);
  });

  for (const [name, request] of Object.entries({
    "another machine": { remoteAddress: "10.0.0.7" },
    "a name that was made to mean this machine": { host: "evil.example:10002" },
    "a request without a host": { host: "" },
    "what a proxy forwards": { headers: ["X-Forwarded-For", "10.0.0.7"] },
  })) {
    it(`refuse ${name}`, () => assert.equal(statusOf(request), 403));
  }

  it("ask for the token where there is one, and for nothing else", () => {
    const remoteAddress = "10.0.0.7";
    const token = "secret";
    assert.equal(statusOf({ token }), 403);
    assert.equal(statusOf({ token, headers: ["Authorization", "Bearer secreT"] }), 403);
    const headers = ["Authorization", "Bearer secret"];
    assert.equal(statusOf({ token, headers, remoteAddress, host: "rowhouse.example" }), 200);
  });

  it("leave every other path to the service", () => {
    assert.equal(statusOf({ target: "/rowhouse/People()" }), undefined);
  });

  it("hand the query to the page", () => {
    const answer = insightPages({ pages })(request({ target: `${PATH}?top=3` }))?.();
    assert.ok(answer && !(answer instanceof Promise));
    assert.equal(answer.body, '{\n  "top": "3"\n}\n');
  });
});

describe("Pages that show nobody's data", () => {
  it("answer anybody", () => {
    assert.equal(statusOf({ target: "/metrics", remoteAddress: "10.0.0.7" }), 200);
  });
});

interface Asked {
  readonly target?: string;
  readonly host?: string;
  readonly remoteAddress?: string;
  readonly headers?: readonly string[];
  readonly token?: string;
}

function statusOf(asked: Asked): number | undefined {
  const answer = insightPages({ pages, token: asked.token })(request(asked))?.();
  assert.ok(!(answer instanceof Promise));
  return answer?.status;
}

function request(asked: Asked): RawRequest {
  const { target = PATH, host = "localhost:10002", headers = [] } = asked;
  return {
    verb: "GET",
    target,
    headers: new HeaderList(["Host", host, ...headers]),
    secure: false,
    remoteAddress: asked.remoteAddress ?? "127.0.0.1",
    body: { read: () => undefined, fill: () => 0 },
  };
}
