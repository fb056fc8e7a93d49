import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf, sketchRequest } from "../auth/test-request.ts";
import { Query } from "../wire/query.ts";
import { blobMethodOf, COPY, locateBlob } from "./locate.ts";

describe("A path of the Blob service", () => {
  for (const [path, expected] of [
    ["", "account"],
    ["/", "account"],
    ["/?restype=service", "service"],
    ["/docs?restype=container", "container docs"],
    ["/docs/?restype=container", "container docs"],
    ["/docs?RESTYPE=Container", "container docs"],
    ["/docs/a", "blob docs a"],
    ["/docs/a/b//c/", "blob docs a/b//c/"],
    ["/docs/a%2Fb", "blob docs a/b"],
    ["/docs/a+b%20c", "blob docs a+b c"],
    ["/docs/./key", "blob docs key"],
    ["/docs/%2E/key", "blob docs key"],
    ["/docs/a/../b", "blob docs b"],
    ["/docs/a/%2e%2E/b/c/..", "blob docs b/"],
    ["/docs/a/../../../other/b", "blob docs other/b"],
    ["/docs/a\\b%5Cc", "blob docs a/b/c"],
    ["/docs\\a", "blob docs a"],
    ["/docs/file.", "blob docs file"],
    ["/docs/f1./x...", "blob docs f1/x"],
    ["/docs/a/...", "blob docs a/"],
    ["/docs/a/./", "blob docs a/"],
    ["/docs/.hidden/a.b/..c", "blob docs .hidden/a.b/..c"],
    ["/page.html.", "blob $root page.html"],
    ["/docs/%C3%BCn%C3%AF/%F0%9F%98%80%20a%2Bb%26c%25.txt", "blob docs ünï/😀 a+b&c%.txt"],
    ["/page.html", "blob $root page.html"],
    ["/$root/page.html", "blob $root page.html"],
    ["/?restype=account", "account information"],
    ["/docs/a?restype=account", "account information docs a"],
    ["/docs?resource=filesystem", "hierarchy docs"],
    ["/docs/a?action=append", "hierarchy docs"],
    ["/docs?restype=share", "unknown restype docs"],
  ] as const) {
    it(`${path || "(empty)"} is ${expected}`, () => {
      const { resource, name, item } = locate(path);
      assert.equal([resource, name, item].filter(Boolean).join(" "), expected);
    });
  }

  for (const path of [
    "/docs/",
    "//a",
    "/docs/a?restype=container",
    "/?restype=container",
    "/docs?restype=service",
    "/docs/%ff",
    "/docs/%",
    "/docs/..",
    "/docs/a/..",
    "/docs/...",
    "/.",
    "/docs/%ED%A0%80",
  ]) {
    it(`${path} is refused`, () => {
      assert.equal(refusalOf(() => locate(path)).code, "InvalidUri");
    });
  }
});

describe("The method of a request", () => {
  it("is GET for HEAD, except for a blob itself and for lists, whose answers are more than headers", () => {
    assert.equal(method("HEAD /docs/a"), "HEAD");
    assert.equal(method("HEAD /docs/a?comp="), "HEAD");
    assert.equal(method("HEAD /docs/a?comp=blocklist"), "HEAD");
    assert.equal(method("HEAD /docs?restype=container&comp=list"), "HEAD");
    assert.equal(method("HEAD /?comp=list"), "HEAD");
    assert.equal(method("HEAD /docs?restype=container&comp=ACL"), "GET");
    assert.equal(method("HEAD /docs/a?restype=account&comp=properties"), "GET");
    assert.equal(method("HEAD /docs/a?comp=metadata"), "GET");
    assert.equal(method("HEAD /docs?restype=container"), "GET");
  });

  it("is COPY for a PUT with a copy source and no blob type", () => {
    const source = { "x-ms-copy-source": "http://127.0.0.1/devstoreaccount1/docs/b" };
    assert.equal(method("PUT /docs/a", source), COPY);
    assert.equal(method("PUT /docs/a", { ...source, "x-ms-blob-type": "BlockBlob" }), "PUT");
    assert.equal(method("PUT /docs/a?comp=block", source), "PUT");
    assert.equal(method("PUT /docs/a"), "PUT");
  });
});

function locate(target: string) {
  const [path = "", query = ""] = target.split("?");
  return locateBlob(path, new Query(query));
}

function method(line: string, headers: Record<string, string> = {}): string {
  const target = line.split(" ")[1]!;
  return blobMethodOf(sketchRequest(line, { headers, location: locate(target) }));
}
