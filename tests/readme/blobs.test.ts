import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const page = readFileSync(new URL("../../docs/manual/blobs.md", import.meta.url), "utf8");
const fence = (language: string) =>
  new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, "s").exec(page)?.[1] ?? "";

describe("The manual's page about blobs", () => {
  it("has an example that runs as printed and prints what the page says", async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder);
      // In the repository, where imports are resolved.
      const script = fileURLToPath(new URL(`../../blobs-${process.pid}.mjs`, import.meta.url));
      try {
        writeFileSync(script, fence("js"));
        const env = { ...process.env, BLOBS: server.connectionString };
        const { stdout } = await promisify(execFile)(process.execPath, [script], { env });
        assert.equal(stdout, fence("text"));
      } finally {
        rmSync(script, { force: true });
        assert.equal(await server.stop(), 0);
      }
    });
  });
});
