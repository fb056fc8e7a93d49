import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { BLOCK, BlobLab } from "./test-blob-lab.ts";

const DOCS = "/docs?restype=container";
const LEASE = "1f812371-a41d-49e6-b123-f4b542e851c5";
const OTHER = "{1F812371A41D49E6B123F4B542E851C6}";

let lab: BlobLab;
beforeEach(async () => {
  lab = await BlobLab.open();
});
afterEach(() => lab.close());

describe("A container", () => {
  it("stores metadata and public access, and has its own validators", async () => {
    const created = await lab.must("PUT", DOCS, {
      headers: { "x-ms-meta-Owner": "ops", "x-ms-blob-public-access": "container" },
    });
    const { headers } = await lab.must("GET", DOCS);
    assert.equal(headers.get("etag"), created.headers.get("etag"));
    assert.equal(headers.get("x-ms-meta-owner"), "ops");
    assert.equal(headers.get("x-ms-blob-public-access"), "container");
    assert.equal(headers.get("x-ms-lease-state"), "available");
    const changed = await lab.must("PUT", `${DOCS}&comp=metadata`, {
      headers: { "x-ms-meta-b": "2" },
    });
    assert.notEqual(changed.headers.get("etag"), created.headers.get("etag"));
    const metadata = (await lab.must("GET", `${DOCS}&comp=metadata`)).headers;
    assert.equal(metadata.get("x-ms-meta-owner"), undefined);
    assert.equal(metadata.get("x-ms-meta-b"), "2");
    await lab.must("PUT", "/docs/a", { headers: BLOCK });
    assert.equal((await lab.must("GET", DOCS)).headers.get("etag"), changed.headers.get("etag"));
  });

  it("has a valid name, $root or $web", async () => {
    for (const name of ["$root", "$web", "a-b", "000"]) {
      await lab.must("PUT", `/${name}?restype=container`);
    }
    for (const [name, code] of [
      ["ab", "OutOfRangeInput"],
      ["a--b", "InvalidResourceName"],
      ["Abc", "InvalidResourceName"],
    ]) {
      await lab.refused(`400 ${code}`, "PUT", `/${name}?restype=container`);
    }
    await lab.refused("403 AuthorizationFailure", "PUT", "/$logs?restype=container");
    await lab.must("PUT", "/page.html", { headers: BLOCK, body: "x" });
    assert.equal((await lab.must("GET", "/$root/page.html")).body.toString(), "x");
    await lab.refused("400 InvalidUri", "PUT", "/$root/a/b", { headers: BLOCK });
  });

  it("is refused with its own encryption scope or an invalid access level", async () => {
    for (const headers of [
      { "x-ms-default-encryption-scope": "mine" },
      { "x-ms-deny-encryption-scope-override": "true" },
    ]) {
      await lab.refused("501 NotImplemented", "PUT", DOCS, { headers });
    }
    await lab.must("PUT", DOCS, {
      headers: { "x-ms-default-encryption-scope": "$account-encryption-key" },
    });
    await lab.refused("400 InvalidHeaderValue", "PUT", "/other?restype=container", {
      headers: { "x-ms-blob-public-access": "all" },
    });
  });

  it("replaces access policies and public access together", async () => {
    await lab.must("PUT", DOCS);
    const acl = `${DOCS}&comp=acl`;
    const body =
      "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>";
    await lab.must("PUT", acl, { body, headers: { "x-ms-blob-public-access": "blob" } });
    const first = await lab.must("GET", acl);
    assert.equal(first.headers.get("x-ms-blob-public-access"), "blob");
    assert.match(first.body.toString(), /<Id>a<\/Id>/);
    await lab.must("PUT", acl);
    const second = await lab.must("GET", acl);
    assert.equal(second.headers.get("x-ms-blob-public-access"), undefined);
    assert.match(second.body.toString(), /<SignedIdentifiers \/>/);
    await lab.refused("400 InvalidXmlDocument", "PUT", acl, { body: "<a/>" });
  });

  it("refuses access policies with a wrong Content-MD5, as the service refuses properties", async () => {
    await lab.must("PUT", DOCS);
    const headers = { "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==" };
    for (const path of [`${DOCS}&comp=acl`, "/?restype=service&comp=properties"]) {
      await lab.refused("400 Md5Mismatch", "PUT", path, { body: "<a/>", headers });
    }
  });

  it("is deleted only with its lease id, which other operations do not need", async () => {
    await lab.must("PUT", DOCS);
    const lease = (headers: Record<string, string>) =>
      lab.send("PUT", `${DOCS}&comp=lease`, { headers });
    const acquired = await lease({
      "x-ms-lease-action": "acquire",
      "x-ms-lease-duration": "15",
      "x-ms-proposed-lease-id": LEASE,
    });
    assert.equal(acquired.status, 201);
    assert.equal(acquired.headers.get("x-ms-lease-id"), LEASE);
    await lab.must("PUT", `${DOCS}&comp=metadata`);
    const wrong = { headers: { "x-ms-lease-id": OTHER } };
    for (const [method, path] of [
      ["GET", DOCS],
      ["PUT", `${DOCS}&comp=metadata`],
      ["PUT", `${DOCS}&comp=acl`],
      ["DELETE", DOCS],
    ] as const) {
      await lab.refused("412 LeaseIdMismatchWithContainerOperation", method, path, wrong);
    }
    await lab.refused("412 LeaseIdMissing", "DELETE", DOCS);
    lab.clock.ms += 15_000;
    const own = { headers: { "x-ms-lease-id": LEASE } };
    await lab.refused("412 LeaseNotPresentWithContainerOperation", "DELETE", DOCS, own);
    // Unlike a blob's, an expired container lease may be renewed even after a write.
    await lab.must("PUT", `${DOCS}&comp=metadata`);
    assert.equal(
      (await lease({ "x-ms-lease-action": "renew", "x-ms-lease-id": LEASE })).status,
      200,
    );
    await lab.must("DELETE", DOCS, own);
    await lab.refused("404 ContainerNotFound", "GET", DOCS);
  });

  it("checks date conditions, and ignores If-Match when it is deleted", async () => {
    await lab.must("PUT", DOCS);
    const before = "Fri, 31 Jul 2026 17:59:59 GMT";
    const now = "Fri, 31 Jul 2026 18:00:00 GMT";
    for (const [method, path, headers] of [
      ["PUT", `${DOCS}&comp=metadata`, { "If-Modified-Since": now }],
      ["PUT", `${DOCS}&comp=acl`, { "If-Unmodified-Since": before }],
      ["DELETE", DOCS, { "If-Unmodified-Since": before }],
      ["DELETE", DOCS, { "If-Modified-Since": now }],
    ] as const) {
      await lab.refused("412 ConditionNotMet", method, path, { headers });
    }
    await lab.must("DELETE", DOCS, { headers: { "If-Match": '"other"' } });
  });

  it("loses all blobs when it is deleted, and can be created again immediately", async () => {
    await lab.must("PUT", DOCS);
    await lab.must("PUT", "/docs/a", { headers: BLOCK });
    await lab.must("DELETE", DOCS);
    for (const path of ["/docs/a", DOCS, `${DOCS}&comp=list`]) {
      await lab.refused("404 ContainerNotFound", "GET", path);
    }
    await lab.must("PUT", DOCS);
    await lab.refused("404 BlobNotFound", "GET", "/docs/a");
    await lab.refused("409 ContainerAlreadyExists", "PUT", DOCS);
  });
});

describe("Public access", () => {
  it("is refused to containers and requests if the server forbids it", async () => {
    const strict = await BlobLab.open({ allowsPublicAccess: false });
    await strict.refused("409 PublicAccessNotPermitted", "PUT", DOCS, {
      headers: { "x-ms-blob-public-access": "blob" },
    });
    await strict.must("PUT", DOCS);
    await strict.refused("409 PublicAccessNotPermitted", "PUT", `${DOCS}&comp=acl`, {
      headers: { "x-ms-blob-public-access": "container" },
    });
    for (const path of ["/docs/a", `${DOCS}&comp=list`, DOCS]) {
      const answer = await strict.send("GET", path, { headers: { Authorization: "" } });
      assert.equal(answer.headers.get("x-ms-error-code"), "PublicAccessNotPermitted");
    }
    await strict.close();
  });
});

describe("Lists", () => {
  it("of containers have pages, prefixes and metadata", async () => {
    for (const name of ["bbb", "aaa", "abc"]) {
      await lab.must("PUT", `/${name}?restype=container`, { headers: { "x-ms-meta-N": name } });
    }
    const list = async (query: string) =>
      (await lab.must("GET", `/?comp=list${query}`)).body.toString();
    assert.match(
      await list("&prefix=a&maxresults=1"),
      /<Prefix>a<\/Prefix><MaxResults>1<\/MaxResults>.*<Name>aaa<\/Name>.*<NextMarker>abc<\/NextMarker>/,
    );
    assert.match(
      await list("&marker=abc&include=metadata"),
      /<Name>abc<.*<Metadata><N>abc<\/N><\/Metadata>.*<Name>bbb<.*<NextMarker \/>/,
    );
    await lab.refused("400 InvalidQueryParameterValue", "GET", "/?comp=list&include=x");
    await lab.refused("400 OutOfRangeQueryParameterValue", "GET", "/?comp=list&maxresults=0");
  });

  it("of blobs repeat the request's parameters, and begin at startFrom or the marker", async () => {
    await lab.must("PUT", DOCS);
    for (const name of ["a", "b", "c/1", "c/2"]) {
      await lab.must("PUT", `/docs/${name}`, { headers: BLOCK });
    }
    const list = async (query: string) =>
      (await lab.must("GET", `${DOCS}&comp=list${query}`)).body.toString();
    const names = (text: string) => [...text.matchAll(/<Name>(.*?)<\/Name>/g)].map(([, n]) => n);
    assert.deepEqual(names(await list("&startFrom=b")), ["b", "c/1", "c/2"]);
    const page = await list("&delimiter=%2F&maxresults=2&prefix=");
    assert.match(page, /<Prefix \/><MaxResults>2<\/MaxResults><Delimiter>\/<\/Delimiter>/);
    assert.deepEqual(names(page), ["a", "b"]);
    const [, marker] = /<NextMarker>(.*)<\/NextMarker>/.exec(page)!;
    const next = await list(`&delimiter=%2F&maxresults=2&marker=${marker}`);
    assert.deepEqual(names(next), ["c/"]);
    assert.match(next, /<NextMarker \/>/);
    const padded = "=".repeat((4 - (marker!.length % 4)) % 4);
    assert.deepEqual(names(await list(`&delimiter=%2F&marker=${marker}${padded}`)), ["c/"]);
    const markers = ["!", `${marker}===`, `${"=".repeat(60_000)}x`].map(
      (each) => `&marker=${each}`,
    );
    for (const query of [...markers, "&include=metadata,x"]) {
      await lab.refused("400 InvalidQueryParameterValue", "GET", `${DOCS}&comp=list${query}`);
    }
    await list("&include=snapshots,deleted,versions,tags");
  });
});

describe("A lease of a blob", () => {
  it("survives a restart, and ends at its time", async () => {
    await lab.must("PUT", DOCS);
    await lab.must("PUT", "/docs/a", { headers: BLOCK });
    const etag = (await lab.must("HEAD", "/docs/a")).headers.get("etag");
    const lease = async (on: BlobLab, headers: Record<string, string>) =>
      on.must("PUT", "/docs/a?comp=lease", { headers });
    const { headers } = await lease(lab, {
      "x-ms-lease-action": "acquire",
      "x-ms-lease-duration": "60",
    });
    const id = headers.get("x-ms-lease-id")!;
    assert.equal(headers.get("etag"), etag);
    const { engine, contentStore, clock } = lab;
    const again = await BlobLab.open({ engine, contentStore: contentStore!, clock });
    await again.refused("412 LeaseIdMissing", "DELETE", "/docs/a");
    const broken = await lease(again, {
      "x-ms-lease-action": "break",
      "x-ms-lease-break-period": "30",
    });
    assert.equal(broken.headers.get("x-ms-lease-time"), "30");
    clock.ms += 29_999;
    await again.refused("412 LeaseIdMissing", "DELETE", "/docs/a");
    await again.must("PUT", "/docs/a?comp=metadata", { headers: { "x-ms-lease-id": id } });
    clock.ms += 1;
    await again.refused("412 LeaseLost", "DELETE", "/docs/a", { headers: { "x-ms-lease-id": id } });
    await again.must("DELETE", "/docs/a");
    await again.close();
  });

  it("may be acquired and broken with the shortest and longest times", async () => {
    await lab.must("PUT", DOCS);
    await lab.must("PUT", "/docs/a", { headers: BLOCK });
    for (const seconds of ["15", "60"]) {
      for (const headers of [
        { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" },
        { "x-ms-lease-action": "break", "x-ms-lease-break-period": "60" },
        { "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" },
        { "x-ms-lease-action": "acquire", "x-ms-lease-duration": seconds },
        { "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" },
      ]) {
        await lab.must("PUT", "/docs/a?comp=lease", { headers });
      }
    }
  });

  it("is refused if its headers are missing or invalid", async () => {
    await lab.must("PUT", DOCS);
    await lab.must("PUT", "/docs/a", { headers: BLOCK });
    for (const [headers, expected] of [
      [{}, "400 MissingRequiredHeader"],
      [{ "x-ms-lease-action": "steal" }, "400 InvalidHeaderValue"],
      [{ "x-ms-lease-action": "acquire" }, "400 MissingRequiredHeader"],
      [{ "x-ms-lease-action": "acquire", "x-ms-lease-duration": "14" }, "400 InvalidHeaderValue"],
      [{ "x-ms-lease-action": "acquire", "x-ms-lease-duration": "61" }, "400 InvalidHeaderValue"],
      [{ "x-ms-lease-action": "acquire", "x-ms-lease-duration": "15.5" }, "400 InvalidHeaderValue"],
      [
        {
          "x-ms-lease-action": "acquire",
          "x-ms-lease-duration": "15",
          "x-ms-proposed-lease-id": "mine",
        },
        "400 InvalidHeaderValue",
      ],
      [{ "x-ms-lease-action": "renew" }, "400 MissingRequiredHeader"],
      [{ "x-ms-lease-action": "change", "x-ms-lease-id": LEASE }, "400 MissingRequiredHeader"],
      [{ "x-ms-lease-action": "break", "x-ms-lease-break-period": "61" }, "400 InvalidHeaderValue"],
      [{ "x-ms-lease-action": "break" }, "409 LeaseNotPresentWithLeaseOperation"],
    ] as const) {
      await lab.refused(expected, "PUT", "/docs/a?comp=lease", { headers: { ...headers } });
    }
  });
});
