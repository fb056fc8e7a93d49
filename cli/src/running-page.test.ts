import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { serveOptions } from "./serve/serve-options.ts";

describe("The manual's page on running", () => {
  const page = readFileSync(new URL("../../docs/manual/running.md", import.meta.url), "utf8");
  const rows = page.split("\n").filter((line) => line.startsWith("| `-"));
  const documented = rows.flatMap((row) => row.split(" | ")[0]!.match(/--[a-zA-Z-]+/g) ?? []);
  const shown = serveOptions().flatMap(({ hidden, long }) => (hidden || !long ? [] : [long]));

  it("documents every flag that `serve --help` shows", () => {
    assert.deepEqual(
      shown.filter((flag) => !documented.includes(flag)),
      [],
    );
  });

  it("documents no flag that does not exist", () => {
    assert.deepEqual(
      documented.filter((flag) => !shown.includes(flag)),
      [],
    );
  });
});
