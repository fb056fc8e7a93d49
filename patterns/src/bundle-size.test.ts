import assert from "node:assert/strict";
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

/** The goal. */
const BUDGET = { core: 12 * KIB, pattern: 3 * KIB, everything: 35 * KIB };
/**
 * The actual size, where it is larger. Over the goal are the core, indexes and lists in other partitions, lists
 * of ids, builds by many processes, and the table client, whose transactions are written and read here; by
 * less, logs and the code that builds and repairs indexes. What a pattern adds grows a little when the core
 * shrinks, because the core then contains less that is similar and compresses well.
 */
const REACHED: Readonly<Record<string, number>> = {
  core: 17_382,
  everything: 66_793,
  "azure-tables.ts": 3774,
  "index-life-cycle.ts": 3762,
  "index-scrub.ts": 3273,
  "list-index.ts": 5045,
  "logs.ts": 3141,
  "remote-index.ts": 4419,
  "remote-list.ts": 3866,
  "sharded-build.ts": 4005,
};
/**
 * Nothing may exceed either by more. Node's own zlib, the system's and those of other processors search for
 * repetitions differently: for the same bundle their results differed by up to 1 %.
 */
const SLACK = 1.02;

/** The queue and blob adapters receive a client and need only its types. */
const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  "azure-tables.ts": ["@azure/data-tables"],
  "large-value.ts": ["node:crypto"],
  "transport.ts": ["node:http", "node:https"],
};
const entries = ENTRY_POINTS.filter((name) => name !== "testing.ts");

describe("the bundles", () => {
  it("stay within their budgets, minified and compressed", async (test) => {
    const check = (name: string, bytes: number, budget: number) => {
      const limit = Math.max(budget, REACHED[name] ?? 0) * SLACK;
      test.diagnostic(`${name}: ${bytes} bytes, budget ${budget}`);
      assert.ok(bytes <= limit, `${name} takes ${bytes} bytes; ${Math.floor(limit)} are allowed`);
    };
    const core = await size(["index.ts"]);
    check("core", core, BUDGET.core);
    for (const entry of entries) {
      const added = (await size(["index.ts", entry])) - core;
      check(entry, added, BUDGET.pattern);
    }
    check("everything", await size(entries), BUDGET.everything);
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
