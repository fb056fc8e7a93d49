import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runExample } from "./run-example.ts";

describe("The manual's page about running", () => {
  it("has an example of a server inside a test that runs as printed", async () => {
    const { printed, promised } = await runExample("docs/manual/running.md");
    assert.equal(printed, promised);
    assert.equal(promised, "People\n");
  });
});
