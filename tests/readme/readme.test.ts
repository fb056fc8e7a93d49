import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const fence = (language: string) =>
  new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, "s").exec(readme)?.[1] ?? "";

describe("The README's first example", () => {
  it("runs as printed and prints what the README says", async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder);
      // Beside the README, where it is told to be saved: imports are resolved from there.
      const script = fileURLToPath(new URL(`../../employees-${process.pid}.mjs`, import.meta.url));
      try {
        writeFileSync(script, fence("js"));
        const env = { ...process.env, TABLES: server.connectionString };
        const { stdout } = await promisify(execFile)(process.execPath, [script], { env });
        assert.equal(stdout, fence("text"));
      } finally {
        rmSync(script, { force: true });
        assert.equal(await server.stop(), 0);
      }
    });
  });
});
