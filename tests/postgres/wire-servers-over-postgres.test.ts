import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { failuresOf, runOverPostgres, wireTest } from "./wire-tests.ts";

/** Those that start a server of their own; the others ask no engine much, see `wire-long-run.ts`. */
const ownServer = [
  "blob-client",
  "blob-exchanges",
  "blob-memory",
  "http-random",
  "queue-client",
  "queue-exchanges",
  "queue-listing",
  "queue-operations",
  "queue-settings",
  "table-engines",
  "table-exchanges",
].map(wireTest);

describe("Servers over PostgreSQL", () => {
  it(`pass the wire tests that open servers of their own (${ownServer.length} files)`, async () => {
    const run = await runOverPostgres(ownServer);
    assert.equal(run.code, 0, failuresOf(run));
  });
});
