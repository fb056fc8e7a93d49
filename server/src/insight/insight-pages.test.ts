import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PageRequest } from "../http/pages.ts";
import { HeaderList, WholeBody } from "../http/raw-request.ts";
import { behindToken, jsonPage } from "./insight-pages.ts";

const TOKEN = "secret";
const page = behindToken(
  TOKEN,
  jsonPage((query) => ({ top: query.get("top") })),
);

describe("Pages that show keys", () => {
  it("answer requests with the token in the Authorization header or in the URL", () => {
    assert.equal(statusOf({ headers: ["Authorization", `Bearer ${TOKEN}`] }), 200);
    assert.equal(statusOf({ query: `top=3&token=${TOKEN}` }), 200);
  });

  it("refuse all other requests, including those from the same machine", () => {
    assert.equal(statusOf({}), 403);
    for (const wrong of ["secreT", "secret2", "", "Bearer"]) {
      assert.equal(statusOf({ headers: ["Authorization", `Bearer ${wrong}`] }), 403);
      assert.equal(statusOf({ query: `token=${wrong}` }), 403);
    }
    assert.equal(statusOf({ headers: ["Authorization", TOKEN] }), 403);
  });

  it("receive the query parameters", () => {
    const answer = page(request({ query: `top=3&token=${TOKEN}` }));
    assert.ok(!(answer instanceof Promise));
    assert.equal(answer.body, '{\n  "top": "3"\n}\n');
  });
});

interface Asked {
  readonly query?: string;
  readonly headers?: readonly string[];
}

function statusOf(asked: Asked): number {
  const answer = page(request(asked));
  assert.ok(!(answer instanceof Promise));
  return answer.status;
}

function request({ query = "", headers = [] }: Asked): PageRequest {
  const raw = {
    verb: "GET",
    target: `/_rowhouse/partitions?${query}`,
    headers: new HeaderList(["Host", "localhost:10002", ...headers]),
    secure: false,
    remoteAddress: "127.0.0.1",
    body: new WholeBody(new Uint8Array(0)),
  };
  return { raw, rest: "", query: new URLSearchParams(query) };
}
