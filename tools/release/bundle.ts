import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildOptions, build, type Plugin } from "esbuild";
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

/** ES modules for Node, which find every other package in `node_modules`. */
export async function bundleModules(
  entries: Readonly<Record<string, string>>,
  folder: string,
): Promise<void> {
  const { dependencies = {} } = manifestOf("server");
  const installed = Object.keys({ ...manifestOf("cli").dependencies, ...dependencies });
  await build({
    ...settings(),
    entryPoints: { ...entries },
    outdir: folder,
    format: "esm",
    splitting: true,
    chunkNames: "[name]-[hash]",
    external: [...installed.filter((name) => !name.startsWith("@rowhouse/")), ...FROM_APPLICATIONS],
  });
}

/**
 * One CommonJS file that includes every package but the listed ones: for test runners that cannot `require` ES
 * modules, and for the executable.
 */
export async function bundleCommonJs(
  entry: string,
  file: string,
  { external, plugins = [] }: { external: readonly string[]; plugins?: readonly Plugin[] },
): Promise<void> {
  const common = settings();
  await build({
    ...common,
    entryPoints: [entry],
    outfile: file,
    format: "cjs",
    // Test runners load CommonJS in contexts where import() needs a flag.
    supported: { "dynamic-import": false },
    external: [...external, "pg-native", ...FROM_APPLICATIONS],
    plugins: [...(common.plugins ?? []), ...plugins],
  });
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
