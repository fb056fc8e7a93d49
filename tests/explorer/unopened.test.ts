import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { startRowhouse } from "../support/rowhouse-process.ts";

it("A server whose explorer nobody opens loads no module of it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
  const coverage = join(folder, "coverage");
  // What a process covered names every module that it loaded.
  process.env.NODE_V8_COVERAGE = coverage;
  const server = await startRowhouse(join(folder, "data"));
  delete process.env.NODE_V8_COVERAGE;
  assert.ok(server.lines.join("\n").includes("The explorer is at"));
  await fetch(`${server.tableUrl}/healthz`);
  await server.stop();
  const loaded = readdirSync(coverage)
    .flatMap((name) => {
      const { result } = JSON.parse(readFileSync(join(coverage, name), "utf8")) as {
        result: readonly { readonly url: string }[];
      };
      return result.map(({ url }) => url);
    })
    .filter((url) => url.startsWith("file:") && !url.includes("/node_modules/"));
  assert.ok(
    loaded.some((url) => url.includes("/serve/explorer.")),
    `${loaded.length} modules`,
  );
  assert.deepEqual(
    loaded.filter((url) => /server\/(src|dist)\/explorer\/|\/explorer\/dist\//.test(url)),
    [],
  );
  rmSync(folder, { recursive: true, force: true });
});
