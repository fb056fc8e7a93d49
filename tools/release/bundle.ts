import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { manifestOf, root } from "./manifests.ts";

/** Modules that an application brings, loaded only where the command finds them. */
const FROM_APPLICATIONS = ["@rowhouse/patterns*", "@azure/*"];

/** Settings of every bundle of the command: it includes all packages of this repository, from their sources. */
function settings(): BuildOptions {
  return {
    absWorkingDir: root,
    bundle: true,
    platform: "node",
    target: "node20.19",
    conditions: ["rowhouse-source"],
    legalComments: "none",
    logLevel: "warning",
    plugins: [fixedVersion()],
  };
}

/** What the packed command depends on: native code, and what loads parts of itself by name. All else is included. */
const INSTALLED = ["commander", "lmdb", "pg", "pino"];

export interface Bundle {
  /** The packages, with their exact versions, that it needs beside it. */
  readonly dependencies: Readonly<Record<string, string>>;
  /** The names of the packages of others that it includes. */
  readonly included: readonly string[];
}

/** ES modules for Node that include every package but those that are installed with them. */
export async function bundleModules(
  entries: Readonly<Record<string, string>>,
  folder: string,
): Promise<Bundle> {
  const versions = { ...manifestOf("cli").dependencies, ...manifestOf("server").dependencies };
  const { metafile } = await build({
    ...settings(),
    entryPoints: { ...entries },
    outdir: folder,
    format: "esm",
    splitting: true,
    chunkNames: "[name]-[hash]",
    // Packages that are included as CommonJS require parts of Node.
    banner: {
      js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);',
    },
    external: [...INSTALLED, ...FROM_APPLICATIONS],
    metafile: true,
  });
  const dependencies = Object.fromEntries(INSTALLED.map((name) => [name, versions[name]!]));
  return { dependencies, included: packagesIn(metafile) };
}

function packagesIn({ inputs }: Metafile): string[] {
  const names = Object.keys(inputs).map(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1],
  );
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/**
 * One CommonJS file that includes every package but the listed ones: for test runners that cannot `require` ES
 * modules, and for the executable.
 * @returns the names of the packages of others that it includes
 */
export async function bundleCommonJs(
  entry: string,
  file: string,
  { external, plugins = [] }: { external: readonly string[]; plugins?: readonly Plugin[] },
): Promise<readonly string[]> {
  const common = settings();
  const { metafile } = await build({
    ...common,
    entryPoints: [entry],
    outfile: file,
    format: "cjs",
    // For libraries that create a `require` of their own.
    define: { "import.meta.url": "OWN_URL" },
    banner: { js: 'const OWN_URL = require("node:url").pathToFileURL(__filename).href;' },
    // Test runners load CommonJS in contexts where import() needs a flag.
    supported: { "dynamic-import": false },
    external: [...external, "pg-native", ...FROM_APPLICATIONS],
    plugins: [...(common.plugins ?? []), ...plugins],
    metafile: true,
  });
  return packagesIn(metafile);
}

/** A bundle has no manifest beside it: its version is that of the build. */
function fixedVersion(): Plugin {
  return {
    name: "fixed-version",
    setup(builder) {
      builder.onLoad({ filter: /[\\/]cli[\\/]src[\\/]version\.ts$/ }, ({ path }) => {
        // Fails if the file no longer exports exactly this.
        if (!readFileSync(path, "utf8").includes("export function packageVersion(): string"))
          throw new Error(`${path} does not export packageVersion.`);
        const version = JSON.stringify(manifestOf("cli").version);
        return { contents: `export const packageVersion = () => ${version};` };
      });
    },
  };
}

export function inRoot(path: string): string {
  return join(root, path);
}
