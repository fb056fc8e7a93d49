import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { runExample } from "./run-example.ts";

describe("The README's first example", () => {
  it("runs as printed and prints what the README says", () =>
    withFolder(async (folder) => {
      const server = await startRowhouse(folder);
      try {
        const { printed, promised } = await runExample("README.md", {
          TABLES: server.connectionString,
        });
        assert.equal(printed, promised);
      } finally {
        assert.equal(await server.stop(), 0);
      }
    }));
});
