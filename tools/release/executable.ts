import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { arch as ownArch } from "node:os";
import { dirname, join } from "node:path";
import type { Plugin } from "esbuild";
import { nodeOf } from "../../bench/harness/runtimes.ts";
import { bundleCommonJs, inRoot } from "./bundle.ts";
import { buildExplorer } from "./explorer.ts";
import { manifestOf } from "./manifests.ts";
import { notesOfAddon, notesOfNode, notices, versionsOfAddon } from "./notices.ts";
import { run } from "./run.ts";
import { writeFileSbom } from "./sbom.ts";

/** The Node inside. Its own tool builds the executable, also for another architecture. */
export const NODE = "26.12.1";
export const ARCHITECTURES = ["x64", "arm64"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/**
 * Builds one file that needs nothing installed: Node, the command, and the storage engine's native part.
 * @returns its path, with the version and the architecture in the name; and beside it the licences and the list of
 * what it includes
 */
export async function buildExecutable(
  folder: string,
  architecture: Architecture,
): Promise<readonly string[]> {
  const stage = join(folder, "stage", `executable-${architecture}`);
  mkdirSync(stage, { recursive: true });
  const main = join(stage, "main.cjs");
  const pagePackages = await buildExplorer();
  const bundled = await bundleCommonJs("cli/src/main.ts", main, {
    external: [],
    plugins: [embeddedAddon()],
  });
  const output = join(folder, `rowhouse-${manifestOf("cli").version}-linux-${architecture}`);
  const settings = {
    // Relative: errors name this path.
    main: "main.cjs",
    output,
    disableExperimentalSEAWarning: true,
    ...(architecture !== ownArch() && { executable: nodeOf(NODE, architecture) }),
    assets: { [ADDON]: addonOf(stage, architecture) },
  };
  const file = join(stage, "sea.json");
  writeFileSync(file, JSON.stringify(settings));
  run(nodeOf(NODE), ["--build-sea", file], stage);
  chmodSync(output, 0o755);
  const packages = [...new Set([...bundled, ...pagePackages])].sort();
  const [licences, bom] = [`${output}.NOTICES.txt`, `${output}.cdx.json`];
  const nodeLicence = readFileSync(join(dirname(nodeOf(NODE)), "../LICENSE"), "utf8");
  writeFileSync(licences, `${notices(packages)}${notesOfAddon()}${notesOfNode(NODE, nodeLicence)}`);
  const versions = JSON.parse(run(nodeOf(NODE), ["-p", "JSON.stringify(process.versions)"]));
  writeFileSbom(bom, packages, { ...versionsOfNode(versions), ...versionsOfAddon() });
  return [output, licences, bom];
}

/** Numbers of interfaces, and texts of parts that this build lacks, are no components. */
function versionsOfNode(versions: Readonly<Record<string, string>>): Record<string, string> {
  const { modules: _, napi: __, unicode: ___, ...components } = versions;
  return Object.fromEntries(Object.entries(components).filter(([, version]) => version !== ""));
}

const ADDON = "lmdb.node";

/** The native part of the storage engine for an architecture, from its package. */
function addonOf(stage: string, architecture: Architecture): string {
  const name = `lmdb-linux-${architecture}`;
  const file = join(stage, ADDON);
  if (architecture === ownArch()) {
    copyFileSync(inRoot(`node_modules/@lmdb/${name}/node.napi.glibc.node`), file);
    return file;
  }
  const version = manifestOf("server").dependencies!.lmdb!;
  const prefix = ["--prefix", stage, "--no-save", "--force", "--ignore-scripts"];
  run("npm", ["install", ...prefix, `@lmdb/${name}@${version}`]);
  copyFileSync(join(stage, "node_modules", "@lmdb", name, "node.napi.glibc.node"), file);
  return file;
}

/**
 * Makes the storage engine load its native part from the executable. The system loads it from a file only, so it is
 * written to a new folder that no other user may enter, and removed as soon as it is loaded.
 */
function embeddedAddon(): Plugin {
  const load = `
    import * as files from "node:fs";
    import * as system from "node:os";
    import * as sea from "node:sea";
    function loadEmbedded() {
      let failure;
      // A temporary folder may be mounted so that nothing in it can be executed.
      for (const place of [system.tmpdir(), process.cwd()]) {
        let folder;
        try {
          folder = files.mkdtempSync(pathModule.join(place, ".rowhouse-"));
          const file = pathModule.join(folder, "${ADDON}");
          files.writeFileSync(file, Buffer.from(sea.getRawAsset("${ADDON}")), { mode: 0o700 });
          const loaded = { exports: {} };
          process.dlopen(loaded, file);
          return loaded.exports;
        } catch (error) {
          failure = error;
        } finally {
          if (folder) files.rmSync(folder, { recursive: true, force: true });
        }
      }
      throw new Error("Cannot load the storage engine from " + system.tmpdir() + " or the current folder. Set TMPDIR to a folder that allows executable files.", { cause: failure });
    }
  `;
  return {
    name: "embedded-addon",
    setup(builder) {
      builder.onLoad({ filter: /node_modules[\\/]lmdb[\\/]native\.js$/ }, ({ path }) => {
        const source = readFileSync(path, "utf8");
        const replaced = source
          .replace("import { fileURLToPath } from 'node:url';", load)
          .replace(
            "import { dirname, join, default as pathModule } from 'node:path';",
            "import pathModule from 'node:path';",
          )
          .replace("import loadNAPI from 'node-gyp-build-optional-packages';", "")
          .replace(/let dirName = .*/, "")
          .replace("loadNAPI(dirName)", "loadEmbedded()");
        if (/loadNAPI|import\.meta/.test(replaced))
          throw new Error(`${path} loads its native part in another way than expected.`);
        return { contents: replaced, loader: "js" };
      });
    },
  };
}
