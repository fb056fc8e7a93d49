import assert from "node:assert/strict";
import { it } from "node:test";
import { READ_BY_ALL } from "../engine/engine.ts";
import { KEY_SPACES } from "./key-spaces.ts";

it("Every node of a cluster holds the partitions of names", () => {
  const { accounts, tableCatalog, queueCatalog, blobCatalog } = KEY_SPACES;
  assert.deepEqual([...READ_BY_ALL], [accounts, tableCatalog, queueCatalog, blobCatalog]);
});

/**
 * These bytes are on disk: `docs/internals/storage-format.md` describes them, and stored data relies on them.
 */
it("The first bytes of partitions are those of stored data", () => {
  assert.deepEqual(KEY_SPACES, {
    accounts: 0x01,
    processes: 0x02,
    tableCatalog: 0x10,
    entities: 0x11,
    indexBuilds: 0x12,
    explorerJobs: 0x13,
    queueCatalog: 0x20,
    messages: 0x21,
    blobCatalog: 0x30,
    blobs: 0x31,
    blobExtents: 0x32,
    blobDrafts: 0x33,
    blobContents: 0x34,
    blobNotes: 0x35,
    blobReads: 0x36,
  });
});
