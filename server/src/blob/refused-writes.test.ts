import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BlobLab, type LabRequest } from "./test-blob-lab.ts";

const ROOT = "http://127.0.0.1:10000/devstoreaccount1";
const LEASE = "11111111-1111-1111-1111-111111111111";
const BLOCK = { headers: { "x-ms-blob-type": "BlockBlob" }, body: "new" };
const ACQUIRE = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };

type Write = readonly [method: string, path: string, request?: LabRequest];

/** Every operation that changes an existing blob, each in a form that succeeds without conditions and leases. */
const BLOB_WRITES: readonly Write[] = [
  ["PUT", "/docs/a", BLOCK],
  ["PUT", "/docs/a?comp=blocklist", { body: "<BlockList/>" }],
  ["PUT", "/docs/a?comp=metadata", { headers: { "x-ms-meta-new": "1" } }],
  ["PUT", "/docs/a?comp=properties", { headers: { "x-ms-blob-content-type": "text/new" } }],
  ["PUT", "/docs/a", { headers: { "x-ms-copy-source": `${ROOT}/docs/from` } }],
  ["DELETE", "/docs/a"],
  ["PUT", "/docs/log?comp=appendblock", { body: "new" }],
  ["PUT", "/docs/log?comp=seal"],
];
const BLOB_LEASE: Write = ["PUT", "/docs/a?comp=lease", { headers: ACQUIRE }];
const CONTAINER_WRITES: readonly Write[] = [
  ["PUT", "/docs?restype=container&comp=metadata", { headers: { "x-ms-meta-new": "1" } }],
  ["PUT", "/docs?restype=container&comp=acl"],
  ["PUT", "/docs?restype=container&comp=lease", { headers: ACQUIRE }],
  ["DELETE", "/docs?restype=container"],
];

describe("A write changes nothing if it is refused", () => {
  let lab: BlobLab;
  before(async () => {
    lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    for (const path of ["/docs/a", "/docs/from"]) await lab.must("PUT", path, BLOCK);
    await lab.must("PUT", "/docs/log", { headers: { "x-ms-blob-type": "AppendBlob" } });
  });
  after(() => lab.close());

  for (const write of [...BLOB_WRITES, BLOB_LEASE]) {
    it(`by an ETag condition: ${nameOf(write)}`, async () => {
      await refused("412 ConditionNotMet", { "If-Match": '"0x1"' }, write);
    });
  }

  for (const write of [...BLOB_WRITES, BLOB_LEASE, ...CONTAINER_WRITES]) {
    it(`by a date condition: ${nameOf(write)}`, async () => {
      // The only date condition that every operation on a container supports.
      const since = new Date(lab.clock.ms - 60_000).toUTCString();
      const later = new Date(lab.clock.ms).toUTCString();
      const isContainer = write[1].startsWith("/docs?");
      const condition = isContainer
        ? { "If-Modified-Since": later }
        : { "If-Unmodified-Since": since };
      await refused("412 ConditionNotMet", condition, write);
    });
  }

  it("by a lease whose id it lacks", async () => {
    for (const path of ["/docs/a", "/docs/log"]) {
      const headers = { ...ACQUIRE, "x-ms-proposed-lease-id": LEASE };
      await lab.must("PUT", `${path}?comp=lease`, { headers });
    }
    for (const write of BLOB_WRITES) await refused("412 LeaseIdMissing", {}, write);
  });

  async function refused(
    code: string,
    more: Readonly<Record<string, string>>,
    [method, path, request]: Write,
  ): Promise<void> {
    const [place = ""] = path.split("?");
    const head = place === "/docs" ? `${place}?restype=container` : place;
    const before = (await lab.must("HEAD", head)).headers;
    lab.clock.ms += 1000;
    const headers = { ...request?.headers, ...more };
    await lab.refused(code, method, path, { ...request, headers });
    const now = (await lab.must("HEAD", head)).headers;
    for (const name of ["etag", "content-length", "content-type", "x-ms-lease-state"]) {
      assert.equal(now.get(name), before.get(name), name);
    }
  }
});

function nameOf([method, path, request]: Write): string {
  return `${method} ${path}${request?.headers?.["x-ms-copy-source"] ? " by copying" : ""}`;
}
