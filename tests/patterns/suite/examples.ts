import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Case } from "./cases.ts";
import { lend } from "./lent.ts";

const pages = fileURLToPath(new URL("../../../docs/manual/patterns", import.meta.url));
const lent = new URL("lent.ts", import.meta.url).href;
/** Relative imports are resolved from the folder in which the package runs its examples. */
const folderOfPages = new URL("../../../patterns/examples/pages/", import.meta.url).href;

const IMPORTING = 'import { memory } from "@rowhouse/patterns/testing";';

/**
 * The examples of the manual, one case each: where a page calls `memory()` it receives the endpoint under test.
 * Pages that open no database, or use more of the testing kit, are skipped. Modules are written to `folder`.
 */
export function exampleCases(folder: string): Case[] {
  const names = readdirSync(pages).map((name) => name.replace(/\.md$/, ""));
  const read = names.map((name) => ({
    name,
    page: readFileSync(join(pages, `${name}.md`), "utf8"),
  }));
  return read
    .filter(({ page }) => page.includes(IMPORTING))
    .map(({ name, page }) => ({
      name: `the manual's example of ${name}`,
      run: async (endpoints) => {
        const blocks = Array.from(page.matchAll(/^```ts\n(.*?)^```$/gms), ([, code]) => code);
        const code = blocks
          .join("\n")
          .replace(IMPORTING, `import { memory } from "${lent}";`)
          .replaceAll('from "../', `from "${folderOfPages}../`);
        mkdirSync(folder, { recursive: true });
        const file = join(folder, `${name}.ts`);
        writeFileSync(file, code);
        lend(endpoints);
        const printed = await outputOf(file);
        rmSync(file);
        const [, expected = ""] = /^```text\n(.*?)^```$/ms.exec(page) ?? [];
        assert.equal(printed, expected);
      },
    }));
}

async function outputOf(file: string): Promise<string> {
  const { log } = console;
  let output = "";
  console.log = (...values: unknown[]) => {
    output += `${values.map(String).join(" ")}\n`;
  };
  try {
    await import(`${pathToFileURL(file).href}?${Math.random()}`);
    return output;
  } finally {
    console.log = log;
  }
}
