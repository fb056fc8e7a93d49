import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const pages = join(root, "docs/manual/patterns");
const names = readdirSync(pages)
  .filter((name) => name.endsWith(".md") && name !== "README.md")
  .map((name) => name.slice(0, -3));

/** Inside the package, so that an example imports what its readers import. */
const folder = mkdtempSync(join(root, "patterns/.manual-"));

describe("the examples of the manual", () => {
  before(() => {
    mkdirSync(join(folder, "pages"));
    for (const name of names) writeFileSync(pathOf(name), exampleOf(name));
    const config = {
      extends: "../../tsconfig.base.json",
      compilerOptions: {
        composite: false,
        noEmit: true,
        rootDir: "../..",
        lib: ["es2023", "dom"],
        types: ["node"],
      },
      include: ["pages"],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  });
  after(() => rmSync(folder, { recursive: true }));

  it("compile", () => {
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    assert.equal(stdout, "");
  });

  for (const name of names) {
    it(`run: ${name}`, async () => {
      await import(pathToFileURL(pathOf(name)).href);
    });
  }
});

function pathOf(name: string): string {
  return join(folder, "pages", `${name}.ts`);
}

/** A page is one example: its code blocks make one module. */
function exampleOf(name: string): string {
  const text = readFileSync(join(pages, `${name}.md`), "utf8");
  const blocks = Array.from(text.matchAll(/^```ts\n(.*?)^```$/gms), ([, code]) => code);
  assert.ok(blocks.length > 0, `${name}.md has no example`);
  return blocks.join("\n");
}
