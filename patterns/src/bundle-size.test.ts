import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const sources = fileURLToPath(new URL(".", import.meta.url));
const KIB = 1024;
/** On the way to 12 KiB. */
const CORE_MAX = 14.8 * KIB;
const PATTERN_MAX = 3 * KIB;
/** The protocols that keep entries in other partitions, and all that operators do; on the way to 3 KiB as well. */
const LARGER_MAX: Readonly<Record<string, number>> = {
  "index-life-cycle.ts": 3.25 * KIB,
  "remote-index.ts": 4.15 * KIB,
  "remote-list.ts": 3.75 * KIB,
};
/** On the way to 35 KiB, as the core is to 12. */
const ALL_MAX = 51.5 * KIB;

/** What runs at the user's desk only. */
const NOT_SHIPPED = ["testing.ts"];
/** The queue and blob adapters are given a client and need its types only. */
const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  "azure-tables.ts": ["@azure/data-tables"],
  "transport.ts": ["node:http", "node:https"],
};
const entries = readdirSync(sources)
  .filter(
    (name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !NOT_SHIPPED.includes(name),
  )
  .sort();

describe("the bundles", () => {
  it("stay within their budgets, minified and compressed", async () => {
    const core = await size(["index.ts"]);
    assert.ok(core <= CORE_MAX, `the core takes ${core} bytes`);
    for (const entry of entries) {
      const added = (await size(["index.ts", entry])) - core;
      const limit = LARGER_MAX[entry] ?? PATTERN_MAX;
      assert.ok(added <= limit, `${entry} adds ${added} bytes to the core`);
    }
    const all = await size(entries);
    assert.ok(all <= ALL_MAX, `everything takes ${all} bytes`);
  });

  it("load no client but the one an adapter is for", async () => {
    for (const entry of entries) {
      assert.deepEqual(await importsOf(entry), IMPORTS[entry] ?? [], entry);
    }
  });
});

async function bundle(names: readonly string[]) {
  return build({
    stdin: {
      contents: names.map((name, i) => `export * as e${i} from "./${name}";`).join("\n"),
      resolveDir: sources,
      loader: "ts",
    },
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: "es2022",
    external: ["@azure/*", "node:*"],
    conditions: ["source"],
    metafile: true,
  });
}

async function size(names: readonly string[]): Promise<number> {
  const { outputFiles } = await bundle(names);
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
}

async function importsOf(name: string): Promise<string[]> {
  const { metafile } = await bundle([name]);
  const outputs = Object.values(metafile.outputs);
  return [...new Set(outputs.flatMap(({ imports }) => imports.map(({ path }) => path)))];
}
