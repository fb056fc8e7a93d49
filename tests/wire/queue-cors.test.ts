import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { QueueWire } from "./queue-wire.ts";
import { assertStorageRefused } from "./storage-refusals.ts";

const APP = "https://app.example";

let server: LocalServer;
let wire: QueueWire;

before(async () => {
  server = await startLocalServer({ listen: { queue: { host: "127.0.0.1", port: 0 } } });
  wire = new QueueWire(server.urls.queue!);
  await wire.send("PUT", "/orders");
});
after(async () => {
  wire.close();
  await server.close();
});

describe("The CORS headers of an answer", () => {
  /** Origin sent, allowed origins of the rules, and the answer: Vary, Allow-Origin, whether headers are exposed. */
  const TABLE: readonly [
    string | undefined,
    string[],
    string | undefined,
    string | undefined,
    boolean,
  ][] = [
    [undefined, [], undefined, undefined, false],
    [undefined, [APP], "Origin", undefined, false],
    [undefined, ["*"], undefined, "*", true],
    [APP, [], undefined, undefined, false],
    [APP, [APP], "Origin", APP, true],
    [APP, ["https://other.example"], "Origin", undefined, false],
    [APP, ["*"], undefined, "*", true],
  ];
  for (const [origin, origins, vary, allowed, exposes] of TABLE) {
    it(`to origin ${origin ?? "(none)"} follow the rules for ${origins.join() || "(none)"}`, async () => {
      await setRules(...origins);
      for (const path of ["/orders?comp=metadata", "/nobodys?comp=metadata"]) {
        const headers = origin ? { Origin: origin } : {};
        const answer = await wire.send("GET", path, { headers });
        assert.equal(answer.header("vary"), vary);
        assert.equal(answer.header("access-control-allow-origin"), allowed);
        const exposed = answer.header("access-control-expose-headers");
        assert.equal(exposed?.includes("x-ms-request-id") ?? false, exposes);
        const credentials = allowed === APP ? "true" : undefined;
        assert.equal(answer.header("access-control-allow-credentials"), credentials);
      }
    });
  }

  it("expose every header of the answer under a rule that exposes *", async () => {
    await setRules("*");
    for (const [method, path] of [
      ["GET", "/orders/messages"],
      ["GET", "/nobodys?comp=metadata"],
      ["PUT", "/orders"],
    ] as const) {
      const answer = await wire.send(method, path, { headers: { Origin: APP } });
      const sent = answer.headers
        .map(([name]) => name)
        .filter((name) => !/^(?:access-control-.*|vary|connection|keep-alive)$/i.test(name));
      const exposed = answer.header("access-control-expose-headers");
      assert.deepEqual(exposed?.split(",").sort(), sent.sort(), `${method} ${path}`);
    }
  });

  it("to a write do not include Vary", async () => {
    await setRules(APP);
    const answer = await wire.send("PUT", "/orders", { headers: { Origin: APP } });
    assert.equal(answer.header("vary"), undefined);
    assert.equal(answer.header("access-control-allow-origin"), APP);
  });
});

describe("A preflight", () => {
  it("needs no credentials and no existing resource, only a matching rule", async () => {
    await setRules(APP);
    const allowed = await preflight({ method: "PUT", headers: "X-MS-Version,content-type" });
    assert.equal(allowed.status, 200);
    assert.equal(allowed.header("access-control-allow-headers"), "X-MS-Version,content-type");
    assert.equal(allowed.header("access-control-max-age"), "60");
    assert.equal(allowed.header("access-control-allow-credentials"), "true");
    for (const refused of [
      { method: "DELETE" },
      { method: "PUT", headers: "x-other" },
      { method: "PUT", origin: "https://other.example" },
    ]) {
      const details = assertStorageRefused(await preflight(refused), 403, "CorsPreflightFailure");
      assert.ok(details.MessageDetails);
    }
  });

  it("must name an origin and a method", async () => {
    for (const headers of [{ Origin: APP }, { "Access-Control-Request-Method": "GET" }]) {
      const answer = await wire.send("OPTIONS", "/orders", { sas: "", headers });
      assertStorageRefused(answer, 400, "InvalidHeaderValue");
    }
  });
});

function preflight(asked: {
  method: string;
  headers?: string;
  origin?: string;
}): Promise<HttpAnswer> {
  const headers = {
    Origin: asked.origin ?? APP,
    "Access-Control-Request-Method": asked.method,
    "Access-Control-Request-Headers": asked.headers,
  };
  return wire.send("OPTIONS", "/nobodys/messages", { sas: "", headers });
}

async function setRules(...origins: string[]): Promise<void> {
  const rules = origins.map(
    (origin) =>
      `<CorsRule><AllowedOrigins>${origin}</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-*,content-type</AllowedHeaders><ExposedHeaders>${origin === "*" ? "*" : "x-ms-*"}</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>`,
  );
  const body = `<StorageServiceProperties><Cors>${rules.join("")}</Cors></StorageServiceProperties>`;
  const answer = await wire.send("PUT", "/?restype=service&comp=properties", { body });
  assert.equal(answer.status, 202, answer.text);
}
