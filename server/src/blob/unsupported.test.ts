import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BlobLab } from "./test-blob-lab.ts";

let lab: BlobLab;
before(async () => {
  lab = await BlobLab.open();
  await lab.must("PUT", "/docs?restype=container");
  await lab.must("PUT", "/docs/a", { headers: { "x-ms-blob-type": "BlockBlob" } });
});
after(() => lab.close());

describe("An unsupported feature", () => {
  for (const line of [
    "GET /?comp=blobs&where=a",
    "GET /docs?restype=container&comp=blobs&where=a",
    "POST /?restype=service&comp=userdelegationkey",
    "PUT /docs?restype=container&comp=undelete",
    "PUT /docs?restype=container&comp=rename",
    "PUT /docs/a?comp=snapshot",
    "PUT /docs/a?comp=undelete",
    "PUT /docs/a?comp=tags",
    "GET /docs/a?comp=tags",
    "PUT /docs/a?comp=page",
    "GET /docs/a?comp=pagelist",
    "PUT /docs/a?comp=incrementalcopy",
    "POST /docs/a?comp=query",
    "PUT /docs/a?comp=expiry",
    "PUT /docs/a?comp=immutabilityPolicies",
    "DELETE /docs/a?comp=immutabilitypolicies",
    "PUT /docs/a?comp=legalhold",
    "PATCH /docs/a?action=append",
    "HEAD /docs/a?action=getStatus",
    "PUT /docs?resource=filesystem",
    "GET /docs?resource=filesystem&recursive=true",
    "DELETE /docs?resource=filesystem",
    "PUT /docs/a?resource=file",
    "GET /?resource=account",
  ]) {
    it(`is refused with 501: ${line}`, async () => {
      const [method = "", path = ""] = line.split(" ");
      await lab.refused("501 NotImplemented", method, path);
    });
  }

  it("is not revealed to anonymous requests", async () => {
    const headers = { Authorization: "" };
    await lab.refused("404 ResourceNotFound", "GET", "/docs/a?comp=tags", { headers });
    await lab.refused("404 ResourceNotFound", "GET", "/docs/a?comp=nothing", { headers });
    await lab.refused("404 ResourceNotFound", "HEAD", "/?comp=list", { headers });
    await lab.refused("401 NoAuthenticationInformation", "PUT", "/docs/a?comp=tier", { headers });
    await lab.refused("401 NoAuthenticationInformation", "POST", "/docs/a", { headers });
  });

  it("such as a snapshot or version is not found, and the blob itself stays unchanged", async () => {
    const { headers } = await lab.must("HEAD", "/docs/a");
    for (const [method, query, more] of [
      ["GET", "snapshot=2026", {}],
      ["DELETE", "versionid=2026", {}],
      ["PUT", "comp=metadata&snapshot=2026", {}],
      ["PUT", "comp=properties&snapshot=2026", {}],
      ["PUT", "comp=lease&versionid=2026", { "x-ms-lease-action": "break" }],
      ["PUT", "snapshot=2026", { "x-ms-blob-type": "BlockBlob" }],
    ] as const) {
      await lab.refused("404 BlobNotFound", method, `/docs/a?${query}`, { headers: more });
    }
    assert.equal((await lab.must("HEAD", "/docs/a")).headers.get("etag"), headers.get("etag"));
  });

  it("is refused with 501 if a header requests it", async () => {
    for (const [path, header] of [
      ["/docs/a?comp=metadata", "x-ms-encryption-scope"],
      ["/docs/a?comp=properties", "x-ms-sequence-number-action"],
      ["/docs/a?comp=block&blockid=AAAA", "x-ms-encryption-scope"],
      ["/docs/a?comp=appendblock", "x-ms-encryption-scope"],
      ["/docs/a?comp=blocklist", "x-ms-tags"],
      ["/docs/a?comp=blocklist", "X-Ms-Tags"],
      ["/docs/a?comp=metadata", "x-ms-if-tags"],
    ] as const) {
      await lab.refused("501 NotImplemented", "PUT", path, { headers: { [header]: "x" } });
    }
    for (const [method, path, header] of [
      ["GET", "/docs/a", "x-ms-if-tags"],
      ["GET", "/docs/a", "x-ms-encryption-key"],
      ["HEAD", "/docs/a", "x-ms-encryption-key"],
      ["GET", "/docs/a?comp=metadata", "x-ms-encryption-key"],
      ["PUT", "/docs/a?comp=seal", "x-ms-encryption-scope"],
      ["DELETE", "/docs/a", "x-ms-access-tier-if-modified-since"],
    ] as const) {
      await lab.refused("501 NotImplemented", method, path, { headers: { [header]: "x" } });
    }
  });

  it("is not requested by an encryption algorithm without a key", async () => {
    const algorithm = { "x-ms-encryption-algorithm": "AES256" };
    const block = { ...algorithm, "x-ms-blob-type": "BlockBlob" };
    await lab.must("PUT", "/docs/algorithm", { headers: block, body: "x" });
    await lab.must("PUT", "/docs/algorithm?comp=metadata", { headers: algorithm });
    const keyed = { ...block, "x-ms-encryption-key": "k", "x-ms-encryption-key-sha256": "h" };
    await lab.refused("501 NotImplemented", "PUT", "/docs/algorithm", {
      headers: keyed,
      body: "y",
    });
    const { body } = await lab.must("GET", "/docs/algorithm", { headers: algorithm });
    assert.equal(body.toString(), "x");
  });

  it("cannot be enabled in the service properties", async () => {
    for (const group of [
      "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>",
      "<StaticWebsite><Enabled>true</Enabled></StaticWebsite>",
    ]) {
      const body = `<StorageServiceProperties>${group}</StorageServiceProperties>`;
      const path = "/?restype=service&comp=properties";
      await lab.refused("501 NotImplemented", "PUT", path, { body });
    }
  });
});

describe("A meaningless request", () => {
  for (const [line, expected] of [
    ["DELETE /?comp=list", "405 UnsupportedHttpVerb"],
    ["POST /docs/a", "405 UnsupportedHttpVerb"],
    ["HEAD /?comp=list", "405 UnsupportedHttpVerb"],
    ["HEAD /?restype=service&comp=properties", "405 UnsupportedHttpVerb"],
    ["HEAD /docs?restype=container&comp=list", "405 UnsupportedHttpVerb"],
    ["HEAD /docs/a?comp=blocklist", "405 UnsupportedHttpVerb"],
    ["POST /docs?restype=container", "400 MissingRequiredQueryParameter"],
    ["DELETE /docs/a?comp=metadata", "405 UnsupportedHttpVerb"],
    ["GET /docs/a?comp=nothing", "400 InvalidQueryParameterValue"],
    ["GET /docs?restype=container&comp=x", "400 InvalidQueryParameterValue"],
    ["GET /docs?restype=share", "400 InvalidQueryParameterValue"],
    ["GET /?restype=service&comp=stats", "400 InvalidQueryParameterValue"],
    ["GET /docs/a?timeout=x", "400 InvalidQueryParameterValue"],
    ["GET /docs/", "400 InvalidUri"],
    ["GET /docs/a%ff", "400 InvalidUri"],
    ["GET /docs/a?comp=blocklist&blocklisttype=x", "400 InvalidQueryParameterValue"],
    ["BREW /docs/a", "400 InvalidHttpVerb"],
  ] as const) {
    it(`is refused: ${line}, ${expected}`, async () => {
      const [method = "", path = ""] = line.split(" ");
      await lab.refused(expected, method, path);
    });
  }

  it("is refused without a Content-Length where one is required", async () => {
    const headers = { "x-ms-blob-type": "BlockBlob", "Content-Length": "" };
    await lab.refused("411 MissingContentLengthHeader", "PUT", "/docs/b", { headers });
  });
});
