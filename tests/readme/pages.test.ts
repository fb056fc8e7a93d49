import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { runExample } from "./run-example.ts";

describe("The manual", () => {
  for (const [page, variable] of [
    ["queues", "QUEUES"],
    ["blobs", "BLOBS"],
  ] as const) {
    it(`has an example of ${page} that runs as printed and prints what the page says`, () =>
      withFolder(async (folder) => {
        const server = await startRowhouse(folder);
        try {
          const { printed, promised } = await runExample(`docs/manual/${page}.md`, {
            [variable]: server.connectionString,
          });
          assert.equal(printed, promised);
          assert.notEqual(printed, "");
        } finally {
          assert.equal(await server.stop(), 0);
        }
      }));
  }
});
