import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { ENTRY_POINTS, sources } from "./test-entry-points.ts";

/*
 * What the library costs a program in bytes: the entry points as bundled by esbuild, minified, as ES2022
 * modules, compressed by gzip -9, without the official clients and Node's own modules.
 *
 * - The core is `@rowhouse/patterns` with all its exports.
 * - A pattern is what its entry point adds to the core. Code that several share (how entries are stored,
 *   messages) counts for each of them.
 * - Everything is all entry points in one bundle, including those for operators, the adapters and the
 *   transport.
 *
 * The testing kit is excluded, because it runs only in development; the command line is a package of its own.
 */

const KIB = 1024;

/** As in README.md. */
const BUDGET = { core: 19.5 * KIB, pattern: 5 * KIB, everything: 67.5 * KIB };

/** `RECORD=1` writes it. */
const RECORDED = new URL("../bundle-sizes.json", import.meta.url);
/**
 * How far a size may be from the recorded one before that is written again. Node's own zlib, the system's and those
 * of other processors search for repetitions differently: for the same bundle their results differ by up to 1 %.
 */
const TOLERANCE = 0.05;

/** The queue and blob adapters receive a client and need only its types. */
const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  "azure-tables.ts": ["@azure/data-tables"],
  "large-value.ts": ["node:crypto"],
  "transport.ts": ["node:http", "node:https"],
};
const entries = ENTRY_POINTS.filter((name) => name !== "testing.ts");

describe("the bundles", () => {
  it("stay within their budgets, and about as large as recorded, minified and compressed", async () => {
    const core = await size(["index.ts"]);
    const sizes: Record<string, number> = { core, everything: await size(entries) };
    for (const entry of entries) {
      if (entry !== "index.ts") sizes[entry] = (await size(["index.ts", entry])) - core;
    }
    if (process.env.RECORD) writeFileSync(RECORDED, `${JSON.stringify(sizes, null, 2)}\n`);
    const recorded: Record<string, number> = JSON.parse(readFileSync(RECORDED, "utf8"));
    assert.deepEqual(Object.keys(recorded), Object.keys(sizes), "run this test with RECORD=1");
    for (const [name, bytes] of Object.entries(sizes)) {
      const budget = name === "core" || name === "everything" ? BUDGET[name] : BUDGET.pattern;
      assert.ok(bytes <= budget, `${name} takes ${bytes} bytes; ${budget} are allowed`);
      // A few bytes are many percent of the smallest.
      const drift = Math.abs(bytes - recorded[name]!) / Math.max(recorded[name]!, KIB);
      const message = `${name} took ${recorded[name]} bytes and takes ${bytes}: run this test with RECORD=1`;
      assert.ok(drift <= TOLERANCE, message);
    }
  });

  it("import no client except the one their adapter is for", async () => {
    for (const entry of entries) {
      assert.deepEqual(await importsOf(entry), IMPORTS[entry] ?? [], entry);
    }
  });
});

async function bundle(names: readonly string[]) {
  return build({
    stdin: {
      contents: names.map((name) => `export * from "./${name}";`).join("\n"),
      resolveDir: sources,
      loader: "ts",
    },
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: "es2022",
    external: ["@azure/*", "node:*"],
    conditions: ["rowhouse-source"],
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
