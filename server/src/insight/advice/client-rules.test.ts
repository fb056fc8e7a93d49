import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readAll, record } from "../test-traffic.ts";

describe("Advice on clients", () => {
  it("reports clients that open a connection for nearly every request, and not those that reuse connections", () => {
    const kept = record();
    kept.ask(60, { perConnection: 3 });
    assert.deepEqual(kept.rules(), []);
    const opened = record();
    opened.ask(60, { perConnection: 2 });
    assert.deepEqual(opened.rules(), ["connections"]);
  });

  it("does not treat the addresses beyond the limit, which are counted together, as one client", () => {
    const traffic = record();
    for (let i = 0; i < 400; i++) traffic.ask(1, { remoteAddress: `10.0.${i >> 8}.${i & 255}` });
    assert.deepEqual(traffic.rules(), []);
  });

  it("reports web pages that sign with the account's key, and not those with a SAS", () => {
    const headers = { origin: "https://shop.example", "user-agent": "Mozilla/5.0" };
    for (const [caller, rules] of [
      ["shared-key", ["page-access"]],
      ["service-sas", []],
    ] as const) {
      const traffic = record();
      traffic.ask(3, { caller, headers });
      assert.deepEqual(traffic.rules(), rules);
    }
  });

  it("reports refused preflights, and preflights sent for nearly every request", () => {
    const refused = record();
    const code = { status: 403, errorCode: "CorsPreflightFailure" };
    const page = { caller: "anonymous", verb: "OPTIONS", headers: { origin: "null" } } as const;
    refused.ask(3, { ...page, ...code });
    assert.deepEqual(refused.rules(), ["page-access"]);
    const repeated = record();
    repeated.ask(20, page);
    repeated.ask(40, { caller: "service-sas", headers: page.headers });
    assert.deepEqual(repeated.rules(), ["page-access"]);
    const cached = record();
    cached.ask(20, page);
    cached.ask(41, { caller: "service-sas", headers: page.headers });
    assert.deepEqual(cached.rules(), []);
  });

  it("reports retired libraries, and versions used next to newer ones", () => {
    const agents = (...all: string[]) => {
      const traffic = record();
      for (const agent of all) traffic.ask(1, { headers: { "user-agent": agent } });
      return traffic.rules();
    };
    assert.deepEqual(agents("azsdk-js-data-tables/13.3.2 core-rest-pipeline/1.1.0"), []);
    assert.deepEqual(agents("azsdk-js-data-tables/13.9.0", "azsdk-js-data-tables/13.10.0"), [
      "old-clients",
    ]);
    assert.deepEqual(agents("Azure-Storage/2.10.3 (NODE-VERSION v12)"), ["old-clients"]);
  });

  it("lists the credentials seen if it cannot judge direct access", () => {
    const traffic = record();
    traffic.query("PartitionKey eq 'p'", { read: 1, returned: 1 });
    traffic.ask(2, {});
    traffic.ask(1, { caller: "anonymous" });
    const direct = traffic.lines().find(({ question }) => /SAS and CORS/.test(question));
    assert.equal(direct?.verdict, "cannot judge");
    assert.match(direct.note, /^requests: 2 with the account's key, 1 with no credentials;/);
  });

  it("distinguishes at most 256 clients and 64 user agents", () => {
    const traffic = record();
    for (let i = 0; i < 1000; i++) {
      const headers = { "user-agent": `agent ${i}` };
      traffic.ask(1, { remoteAddress: `10.0.${i >> 8}.${i & 255}`, headers });
    }
    const { clients, agents } = readAll(traffic.text());
    assert.deepEqual([clients.length, agents.length], [257, 65]);
    assert.equal(clients.find(({ client }) => client === "others")?.requests, 744);
  });
});
