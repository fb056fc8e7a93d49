import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BlobLab } from "./test-blob-lab.ts";

const RULES = `<StorageServiceProperties><Cors>
<CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods>
<AllowedHeaders>x-ms-blob-*,x-ms-meta-*</AllowedHeaders><ExposedHeaders>x-ms-meta-*,etag,content-length</ExposedHeaders>
<MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>`;
const ORIGIN = "http://a.example";

describe("A page of another origin", () => {
  let lab: BlobLab;
  before(async () => {
    lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container", {
      headers: { "x-ms-blob-public-access": "blob" },
    });
    await lab.must("PUT", "/docs/a", {
      headers: { "x-ms-blob-type": "BlockBlob", "x-ms-meta-kind": "x" },
      body: "hello",
    });
    await lab.must("PUT", "/?restype=service&comp=properties", { body: RULES });
  });
  after(() => lab.close());

  it("may send a preflight without credentials, even for a missing blob", async () => {
    const { status, headers } = await preflight("/docs/nothing", "PUT", "x-ms-blob-type");
    assert.equal(status, 200);
    assert.equal(headers.get("access-control-allow-origin"), ORIGIN);
    assert.equal(headers.get("access-control-allow-methods"), "PUT");
    assert.equal(headers.get("access-control-allow-headers"), "x-ms-blob-type");
    assert.equal(headers.get("access-control-max-age"), "60");
    assert.equal(headers.get("access-control-allow-credentials"), "true");
  });

  it("is refused methods and headers that no rule allows", async () => {
    assert.equal((await preflight("/docs/a", "DELETE")).status, 403);
    assert.equal((await preflight("/docs/a", "PUT", "authorization")).status, 403);
    await lab.refused("400 InvalidHeaderValue", "OPTIONS", "/docs/a", {
      headers: { Authorization: "" },
    });
  });

  it("receives the CORS headers, on errors as well", async () => {
    for (const [path, status] of [
      ["/docs/a", 200],
      ["/docs/nothing", 404],
    ] as const) {
      const headers = { Origin: ORIGIN, Authorization: "" };
      const answer = await lab.send("GET", path, { headers });
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get("access-control-allow-origin"), ORIGIN);
      assert.equal(answer.headers.get("access-control-allow-credentials"), "true");
      assert.equal(answer.headers.get("vary"), "Origin");
      if (status === 200) {
        assert.match(answer.headers.get("access-control-expose-headers") ?? "", /x-ms-meta-kind/);
      }
    }
  });

  it("may read the Content-Length of an answer, even if it is 0, but not of an answer without one", async () => {
    for (const [method, headers, status, isTold] of [
      ["PUT", { "x-ms-blob-type": "BlockBlob" }, 201, true],
      ["GET", { "If-Modified-Since": new Date(lab.clock.ms).toUTCString() }, 304, false],
    ] as const) {
      const answer = await lab.send(method, "/docs/b", { headers: { ...headers, Origin: ORIGIN } });
      assert.equal(answer.status, status);
      const exposed = answer.headers.get("access-control-expose-headers") ?? "";
      assert.equal(/content-length/i.test(exposed), isTold, exposed);
    }
  });

  function preflight(path: string, method: string, asked?: string) {
    const headers: Record<string, string> = {
      Origin: ORIGIN,
      Authorization: "",
      "Access-Control-Request-Method": method,
    };
    if (asked !== undefined) headers["Access-Control-Request-Headers"] = asked;
    return lab.send("OPTIONS", path, { headers });
  }
});
