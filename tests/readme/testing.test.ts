import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runExample } from "./run-example.ts";

describe("The manual's page about tests", () => {
  it("has an example of a server in the same process that runs as printed", async () => {
    const { printed, promised } = await runExample("docs/manual/testing.md");
    assert.equal(printed, promised);
    assert.match(promised, /^point query\ntable scan\n/);
  });
});
