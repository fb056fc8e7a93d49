import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { runExample } from "./run-example.ts";

describe("The manual's page about blobs", () => {
  it("has an example that runs as printed and prints what the page says", () =>
    withFolder(async (folder) => {
      const server = await startRowhouse(folder);
      try {
        const { printed, promised } = await runExample("docs/manual/blobs.md", {
          BLOBS: server.connectionString,
        });
        assert.equal(printed, promised);
      } finally {
        assert.equal(await server.stop(), 0);
      }
    }));
});
