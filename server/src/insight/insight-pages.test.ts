import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HeaderList, type RawRequest, WholeBody } from "../http/raw-request.ts";
import { insightPages, jsonPage } from "./insight-pages.ts";

const PATH = "/rowhouse/partitions";
const TOKEN = "secret";
const pages = new Map([
  [PATH, jsonPage((query) => ({ top: query.get("top") }))],
  ["/metrics", { contentType: "text/plain", open: true, print: () => "up 1\n" }],
]);

describe("Pages that show keys", () => {
  it("answer requests with the token in the Authorization header or in the URL", () => {
    assert.equal(statusOf({ headers: ["Authorization", `Bearer ${TOKEN}`] }), 200);
    assert.equal(statusOf({ target: `${PATH}?top=3&token=${TOKEN}` }), 200);
  });

  it("refuse all other requests, including those from the same machine", () => {
    assert.equal(statusOf({}), 403);
    for (const wrong of ["secreT", "secret2", "", "Bearer"]) {
      assert.equal(statusOf({ headers: ["Authorization", `Bearer ${wrong}`] }), 403);
      assert.equal(statusOf({ target: `${PATH}?token=${wrong}` }), 403);
    }
    assert.equal(statusOf({ headers: ["Authorization", TOKEN] }), 403);
  });

  it("leave other paths to the service", () => {
    assert.equal(statusOf({ target: "/rowhouse/People()" }), undefined);
  });

  it("receive the query parameters", () => {
    const asked = request({ target: `${PATH}?top=3&token=${TOKEN}` });
    const answer = insightPages({ pages, token: TOKEN })(asked)?.();
    assert.ok(answer && !(answer instanceof Promise));
    assert.equal(answer.body, '{\n  "top": "3"\n}\n');
  });
});

describe("Pages that show no data", () => {
  it("answer requests without a token", () => {
    assert.equal(statusOf({ target: "/metrics" }), 200);
  });
});

interface Asked {
  readonly target?: string;
  readonly headers?: readonly string[];
}

function statusOf(asked: Asked): number | undefined {
  const answer = insightPages({ pages, token: TOKEN })(request(asked))?.();
  assert.ok(!(answer instanceof Promise));
  return answer?.status;
}

function request({ target = PATH, headers = [] }: Asked): RawRequest {
  return {
    verb: "GET",
    target,
    headers: new HeaderList(["Host", "localhost:10002", ...headers]),
    secure: false,
    remoteAddress: "127.0.0.1",
    body: new WholeBody(new Uint8Array(0)),
  };
}
