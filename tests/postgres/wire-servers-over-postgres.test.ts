import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { failuresOf, overPostgres, runTests, wireTest } from "./wire-tests.ts";

/** Wire tests that start their own server; the others depend little on the engine, see `wire-long-run.ts`. */
const ownServer = [
  "blob-client",
  "blob-exchanges",
  "blob-memory",
  "queue-client",
  "queue-exchanges",
  "queue-listing",
  "queue-operations",
  "queue-settings",
  "table-engines",
  "table-exchanges",
].map(wireTest);

describe("Servers over PostgreSQL", () => {
  it(`pass the wire tests that start their own servers (${ownServer.length} files)`, async () => {
    const run = await overPostgres((settings) => runTests(ownServer, settings));
    assert.equal(run.code, 0, failuresOf(run));
  });
});
