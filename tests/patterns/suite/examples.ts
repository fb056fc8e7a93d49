import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Case } from "./cases.ts";
import { lend } from "./lent.ts";

const pages = fileURLToPath(new URL("../../../docs/manual/patterns", import.meta.url));
const lent = new URL("lent.ts", import.meta.url).href;
/** Relative imports count from the folder that the package runs its examples in. */
const folderOfPages = new URL("../../../patterns/examples/", import.meta.url).href;

/** Those that are about the kit itself, or open nothing. */
const NOT_ABOUT_ENDPOINTS = ["README", "testing", "command-line"];

/**
 * The examples of the manual, each a case: where a page says `memory()` it is given the endpoint under
 * test. Modules are written into `folder`.
 */
export function exampleCases(folder: string): Case[] {
  const names = readdirSync(pages).map((name) => name.replace(/\.md$/, ""));
  return names
    .filter((name) => !NOT_ABOUT_ENDPOINTS.includes(name))
    .map((name) => ({
      name: `the manual's example of ${name}`,
      run: async (endpoints) => {
        const page = readFileSync(join(pages, `${name}.md`), "utf8");
        const blocks = Array.from(page.matchAll(/^```ts\n(.*?)^```$/gms), ([, code]) => code);
        const code = blocks.join("\n");
        const importing = 'import { memory } from "@rowhouse/patterns/testing";';
        assert.ok(code.includes(importing), `${name}.md opens memory() some other way`);
        mkdirSync(folder, { recursive: true });
        const file = join(folder, `${name}.ts`);
        writeFileSync(
          file,
          code
            .replace(importing, `import { memory } from "${lent}";`)
            .replaceAll('from "../', `from "${folderOfPages}`),
        );
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
