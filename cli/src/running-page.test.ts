import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { serveOptions } from "./serve/serve-options.ts";

describe("The manual's page of running", () => {
  const page = readFileSync(new URL("../../docs/manual/running.md", import.meta.url), "utf8");
  const rows = page.split("\n").filter((line) => line.startsWith("| `-"));
  const documented = rows.flatMap((row) => row.split(" | ")[0]!.match(/--[a-zA-Z-]+/g) ?? []);
  const shown = serveOptions().flatMap(({ hidden, long }) => (hidden || !long ? [] : [long]));

  it("has every flag that `serve --help` shows", () => {
    assert.deepEqual(
      shown.filter((flag) => !documented.includes(flag)),
      [],
    );
  });

  it("has no flag that is not there", () => {
    assert.deepEqual(
      documented.filter((flag) => !shown.includes(flag)),
      [],
    );
  });
});
