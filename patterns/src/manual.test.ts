import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { ENTRY_POINTS } from "./test-entry-points.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const pages = join(root, "docs/manual/patterns");
const names = readdirSync(pages)
  .filter((name) => name.endsWith(".md") && name !== "README.md")
  .map((name) => name.slice(0, -3));

describe("the pages of the manual", () => {
  it("show how to import every entry point", () => {
    const shown = names.map(pageOf).join();
    const paths = ENTRY_POINTS.map((name) => `"@rowhouse/patterns/${name.slice(0, -3)}"`);
    assert.deepEqual(
      paths.filter((path) => path !== '"@rowhouse/patterns/index"' && !shown.includes(path)),
      [],
    );
  });

  it("begin the row keys of entities with a literal, as they advise", () => {
    const found = names.filter((name) => /key: \{[^}]*?row: \[k\.(?!lit\()/.test(exampleOf(name)));
    assert.deepEqual(
      found.filter((name) => !WITHOUT_LITERAL.includes(name)),
      [],
    );
  });

  it("are in the list of patterns", () => {
    const list = pageOf("README");
    assert.deepEqual(
      names.filter((name) => !list.includes(`](${name}.md)`)),
      [],
    );
  });
});

/** A rotation's row key begins with the time; the page of keys shows keys. */
const WITHOUT_LITERAL = ["rotation", "keys"];

/** Outside the package, so that an example imports what readers import. */
const build = join(root, ".build");
mkdirSync(build, { recursive: true });
const folder = mkdtempSync(join(build, "manual-"));

describe("the examples of the manual", () => {
  before(() => {
    mkdirSync(join(folder, "pages"));
    for (const name of names) writeFileSync(pathOf(name), exampleOf(name));
    const config = {
      extends: "../../tsconfig.base.json",
      compilerOptions: {
        composite: false,
        // Programs publish what they declare: every type must have a name that they can import.
        declaration: true,
        emitDeclarationOnly: true,
        outDir: "declarations",
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
      const printed = await outputOf(pathOf(name));
      const [, expected = ""] = /^```text\n(.*?)^```$/ms.exec(pageOf(name)) ?? [];
      assert.equal(printed, expected);
    });
  }
});

function pathOf(name: string): string {
  return join(folder, "pages", `${name}.ts`);
}

/** A page is one example: its code blocks form one module, which prints its `text` block. */
function exampleOf(name: string): string {
  const blocks = Array.from(pageOf(name).matchAll(/^```ts\n(.*?)^```$/gms), ([, code]) => code);
  assert.ok(blocks.length > 0, `${name}.md has no example`);
  return blocks.join("\n").replace(/^(?=const \w)/gm, "export ");
}

function pageOf(name: string): string {
  return readFileSync(join(pages, `${name}.md`), "utf8");
}

async function outputOf(path: string): Promise<string> {
  const { log } = console;
  let output = "";
  console.log = (...values: unknown[]) => {
    output += `${values.map(String).join(" ")}\n`;
  };
  try {
    await import(pathToFileURL(path).href);
    return output;
  } finally {
    console.log = log;
  }
}
