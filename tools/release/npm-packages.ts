import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { bundleCommonJs, bundleModules, inRoot } from "./bundle.ts";
import { buildExplorer } from "./explorer.ts";
import { manifestOf, root } from "./manifests.ts";
import { notices } from "./notices.ts";
import { run } from "./run.ts";

/**
 * Packs `rowhouse` and `@rowhouse/patterns`, the two packages that are published. `rowhouse` includes the server and
 * the wire formats, so each of the two installs alone.
 * @param folder inside the repository, where the compiler finds the packages that the sources import
 */
export async function packPackages(folder: string): Promise<readonly PackedPackage[]> {
  mkdirSync(folder, { recursive: true });
  const stages = [await stageRowhouse(folder), await stagePatterns(folder)];
  return stages.map((staged) => ({ ...staged, tarball: pack(staged.stage, folder) }));
}

export interface StagedPackage {
  /** The folder that is packed. */
  readonly stage: string;
  /** The names of the packages of others that its files include. */
  readonly included: readonly string[];
}

export interface PackedPackage extends StagedPackage {
  /** The path of the tarball. */
  readonly tarball: string;
}

export async function stageRowhouse(folder: string): Promise<StagedPackage> {
  const stage = emptied(join(folder, "stage", "rowhouse"));
  const dist = join(stage, "dist");
  const testing = "cli/src/testing.ts";
  const pagePackages = await buildExplorer();
  const bundle = await bundleModules({ main: "cli/src/main.ts", testing }, dist);
  const { dependencies } = bundle;
  const included = [...new Set([...bundle.included, ...pagePackages])].sort();
  // For test runners that load CommonJS; the two packages with native or optional parts are found when needed.
  await bundleCommonJs(testing, join(dist, "testing.cjs"), { external: ["lmdb", "pg"] });
  writeFileSync(join(stage, "NOTICES.txt"), notices(included));
  for (const ending of ["d.ts", "d.cts"])
    writeFileSync(join(dist, `testing.${ending}`), declarationsOf("testing", stage));
  for (const name of ["README.md", "LICENSE"]) cpSync(inRoot(`cli/${name}`), join(stage, name));
  copyPages(stage, [...manualPages(), "COMPATIBILITY.md"]);
  const { private: _, scripts: __, exports: ___, ...manifest } = manifestOf("cli");
  const exports = {
    "./testing": {
      import: { types: "./dist/testing.d.ts", default: "./dist/testing.js" },
      require: { types: "./dist/testing.d.cts", default: "./dist/testing.cjs" },
    },
    "./package.json": "./package.json",
  };
  const files = ["dist", "docs", "COMPATIBILITY.md", "NOTICES.txt"];
  writeManifest(stage, withTypesVersions({ ...manifest, files, exports, dependencies }));
  return { stage, included };
}

/**
 * The declarations of an entry point of the command, whose public types are all its own.
 * @throws Error if they refer to another module, which is not packed
 */
function declarationsOf(entry: string, stage: string): string {
  const folder = join(stage, "..", "declarations");
  const compiler = inRoot("node_modules/typescript/bin/tsc");
  const project = join(folder, "tsconfig.json");
  if (!existsSync(project)) {
    mkdirSync(folder, { recursive: true });
    const compilerOptions = {
      ...{ composite: false, declaration: true, emitDeclarationOnly: true, sourceMap: false },
      ...{ rootDir: root, outDir: folder },
    };
    const files = [inRoot(`cli/src/${entry}.ts`)];
    const settings = { extends: inRoot("tsconfig.base.json"), compilerOptions, files };
    writeFileSync(project, JSON.stringify(settings));
    run(process.execPath, [compiler, "--project", project]);
  }
  const text = readFileSync(join(folder, `cli/src/${entry}.d.ts`), "utf8");
  if (/^import |import\(/m.test(text)) throw new Error(`${entry}.d.ts imports a module.`);
  return text;
}

/**
 * Its own manifest says what is packed; the manual is added. It is compiled where it is packed: the package's own
 * `dist` may be in use, and source maps name the sources by paths relative to them.
 */
async function stagePatterns(folder: string): Promise<StagedPackage> {
  const stage = emptied(join(folder, "stage", "patterns"));
  const { private: _, scripts: __, ...manifest } = manifestOf("patterns");
  const files = manifest.files as readonly string[];
  for (const name of ["README.md", "LICENSE", "src"])
    cpSync(inRoot(`patterns/${name}`), join(stage, name), { recursive: true });
  writeFileSync(
    join(stage, "tsconfig.json"),
    JSON.stringify({
      extends: inRoot("tsconfig.base.json"),
      compilerOptions: { rootDir: "src", outDir: "dist", composite: false },
      include: ["src"],
      exclude: ["**/*.test.ts", "**/test-*"],
    }),
  );
  run(process.execPath, [inRoot("node_modules/typescript/bin/tsc"), "--project", stage]);
  copyPages(stage, manualPages());
  await addCommonJs(join(stage, "dist"));
  const exports = withCommonJs(manifest.exports as Readonly<Record<string, Entry | string>>);
  writeManifest(stage, withTypesVersions({ ...manifest, exports, files: [...files, "docs"] }));
  return { stage, included: [] };
}

/** The same modules for test runners that cannot `require` ES modules, such as Jest. */
async function addCommonJs(dist: string): Promise<void> {
  const common = join(dist, "cjs");
  const files = readdirSync(dist, { recursive: true, encoding: "utf8" });
  await build({
    entryPoints: files.filter((file) => file.endsWith(".js")).map((file) => join(dist, file)),
    outdir: common,
    outbase: dist,
    format: "cjs",
    platform: "node",
    target: "node20.19",
    logLevel: "warning",
  });
  for (const file of files.filter((file) => file.endsWith(".d.ts")))
    cpSync(join(dist, file), join(common, file));
  writeManifest(common, { type: "commonjs" });
}

interface Entry {
  readonly types: string;
  readonly default: string;
}

/** Node finds the ES modules by `import` and `require` alike (`module-sync`), so a program has one copy of them. */
function withCommonJs(
  exports: Readonly<Record<string, Entry | string>>,
): Readonly<Record<string, { readonly require: Entry } | string>> {
  const entries = Object.entries(exports).map(([name, entry]) => {
    if (typeof entry === "string") return [name, entry] as const;
    const { types, default: module, ...others } = entry;
    const common = (path: string) => path.replace("./dist/", "./dist/cjs/");
    const esm = { types, default: module };
    const require = { types: common(types), default: common(module) };
    const found = { ...others, "module-sync": esm, import: esm, require, default: module };
    return [name, found] as const;
  });
  return Object.fromEntries(entries);
}

/** Where compilers that do not read `exports` (`moduleResolution: node`) find the types; Node itself reads it. */
function withTypesVersions(manifest: {
  readonly exports: Readonly<Record<string, { readonly require: Entry } | string>>;
  readonly [member: string]: unknown;
}): object {
  const types = Object.entries(manifest.exports).flatMap(([name, entry]) =>
    typeof entry === "string" ? [] : [[name.slice(2), entry.require.types] as const],
  );
  const [main] = types.filter(([name]) => name === "").map(([, path]) => path);
  const others = types.filter(([name]) => name !== "").map(([name, path]) => [name, [path]]);
  return {
    ...manifest,
    ...(main && { types: main }),
    typesVersions: { "*": Object.fromEntries(others) },
  };
}

/** The manual travels with the packages, at its own paths, so that its links lead somewhere. */
function copyPages(stage: string, pages: readonly string[]): void {
  for (const page of pages) cpSync(inRoot(page), join(stage, page));
}

function manualPages(): string[] {
  return readdirSync(inRoot("docs/manual"), { recursive: true, encoding: "utf8" })
    .filter((page) => /\.(md|png)$/.test(page))
    .map((page) => join("docs/manual", page));
}

function pack(stage: string, folder: string): string {
  // A program may read what this one prints on standard output.
  const [packed] = JSON.parse(
    run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], stage),
  ) as readonly { readonly filename: string }[];
  return join(folder, packed!.filename);
}

function emptied(folder: string): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

function writeManifest(stage: string, manifest: object): void {
  writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}
