import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Page, type PageRequest, textAnswer, withPages } from "./pages.ts";
import { HeaderList, WholeBody } from "./raw-request.ts";

const told: unknown[] = [];
const echo = ({ rest, query }: PageRequest) => textAnswer(200, `${rest}|${query.get("a")}`);
const PAGES: readonly Page[] = [
  { path: "/healthz", methods: { GET: () => textAnswer(200, "ok") } },
  { path: "/_rowhouse/", methods: { GET: echo } },
  { path: "/_rowhouse/metrics", methods: { GET: () => textAnswer(200, "up 1") } },
  { path: "/_rowhouse/accounts", methods: { POST: echo } },
  { path: "/_rowhouse/indexes/", methods: { GET: echo, PUT: echo, DELETE: echo } },
  { path: "/_rowhouse/broken", methods: { GET: () => Promise.reject(new Error("broken")) } },
  {
    path: "/_rowhouse/thrown",
    methods: {
      GET: () => {
        throw new Error("thrown");
      },
    },
  },
];

describe("The server's own pages", () => {
  it("are found by their exact path, then by the longest path that they begin with", async () => {
    assert.equal(await bodyOf("GET", "/_rowhouse/metrics"), "up 1");
    assert.equal(await bodyOf("PUT", "/_rowhouse/indexes/ByName?a=1"), "ByName|1");
    assert.equal(await bodyOf("GET", "/_rowhouse/metric"), "metric|null");
    assert.equal(await bodyOf("GET", "/_rowhouse/"), "|null");
  });

  it("leave all other paths to the service, also those that begin alike", async () => {
    for (const path of ["/metrics", "/rowhouse/partitions", "/_rowhousex", "/healthzz", "/", ""]) {
      assert.equal(await bodyOf("GET", path), "service", path);
    }
  });

  it("leave every path to the service where the host names the account", async () => {
    assert.equal(await bodyOf("GET", "/healthz", { hostNamesAccount: true }), "service");
    assert.equal(await bodyOf("GET", "/_rowhouse/metrics", { hostNamesAccount: true }), "service");
  });

  it("refuse methods that they do not have, and name those that they have", async () => {
    const refused = await ask("DELETE", "/_rowhouse/metrics");
    assert.deepEqual([refused.status, refused.headers.at(-1)], [405, "GET, HEAD"]);
    const posted = await ask("HEAD", "/_rowhouse/accounts");
    assert.deepEqual([posted.status, posted.headers.at(-1)], [405, "POST"]);
    assert.equal((await ask("HEAD", "/_rowhouse/metrics")).status, 200);
  });

  it("answer 404 for names that no page has", async () => {
    const missing = await ask("GET", "/_rowhouse/none", { pages: PAGES.slice(0, 1) });
    assert.equal(missing.status, 404);
  });

  it("answer 500 when they fail, say nothing of why, and tell the server", async () => {
    for (const name of ["broken", "thrown"]) {
      const failed = await ask("GET", `/_rowhouse/${name}`);
      assert.equal(failed.status, 500);
      assert.doesNotMatch(String(failed.body), new RegExp(name));
      assert.match(String(told.pop()), new RegExp(name));
    }
  });
});

interface Around {
  readonly hostNamesAccount?: boolean;
  readonly pages?: readonly Page[];
}

async function ask(verb: string, target: string, around: Around = {}) {
  const { hostNamesAccount = false, pages = PAGES } = around;
  const service = {
    handle: () => textAnswer(200, "service"),
    hostNamesAccount: () => hostNamesAccount,
  };
  const raw = {
    verb,
    target,
    headers: new HeaderList([]),
    secure: false,
    remoteAddress: "127.0.0.1",
    body: new WholeBody(new Uint8Array(0)),
  };
  return await withPages(service, { pages, onError: (error) => told.push(error) })(raw);
}

async function bodyOf(verb: string, target: string, around: Around = {}) {
  return (await ask(verb, target, around)).body;
}
