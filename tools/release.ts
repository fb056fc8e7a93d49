import { createHash } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { buildDebianPackage } from "./release/debian.ts";
import { ARCHITECTURES, buildExecutable } from "./release/executable.ts";
import { buildImage } from "./release/image.ts";
import { manifestOf, root } from "./release/manifests.ts";
import { packPackages } from "./release/npm-packages.ts";
import { run } from "./release/run.ts";
import { writeSbom } from "./release/sbom.ts";

/*
 * Builds what a release publishes, into `.build/release`:
 *
 *     npm run release -- --dry-run            everything, published nowhere
 *     npm run release -- --dry-run packages   the two npm packages and their lists of components
 *     npm run release                         everything, then the packages to the registry, from a tagged commit
 */
const folder = join(root, ".build/release");

const { values, positionals } = readArguments();
if (!values["dry-run"]) assertTagged();
const artefacts = await build();
writeSums(artefacts);
for (const file of artefacts) {
  console.log(`${file}  ${(readFileSync(file).byteLength / 1e6).toFixed(2)} MB`);
}
if (!values["dry-run"]) {
  for (const file of artefacts.filter((name) => name.endsWith(".tgz")))
    run("npm", ["publish", "--access", "public", "--provenance", file]);
}

async function build(): Promise<readonly string[]> {
  const parts: Record<string, () => Promise<readonly string[]>> = {
    packages: async () => {
      const packed = await packPackages(folder);
      return packed.flatMap((each) => [each.tarball, writeSbom(each)]);
    },
  };
  for (const architecture of ARCHITECTURES) {
    parts[`executable-${architecture}`] = () => buildExecutable(folder, architecture);
    parts[`debian-${architecture}`] = () => buildDebianPackage(folder, architecture);
  }
  parts["image-x64"] = () => buildImage(folder);
  const wanted = positionals.length > 0 ? positionals : Object.keys(parts);
  const unknown = wanted.find((name) => !(name in parts));
  if (unknown)
    fail(`There is no "${unknown}" to build; ${Object.keys(parts).join(", ")} are known.`);
  rmSync(folder, { recursive: true, force: true });
  const built: string[] = [];
  for (const name of wanted) built.push(...(await parts[name]!()));
  return built;
}

/** In the format of sha256sum, so that `sha256sum --check SHA256SUMS` verifies a download. */
function writeSums(files: readonly string[]): void {
  const lines = files.map((file) => {
    const sum = createHash("sha256").update(readFileSync(file)).digest("hex");
    return `${sum}  ${basename(file)}\n`;
  });
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""));
}

/** A release is a commit that can be found again: tagged with its version, with nothing uncommitted. */
function assertTagged(): void {
  const { version } = manifestOf("cli");
  if (run("git", ["status", "--porcelain"]) !== "") fail("There are uncommitted changes.");
  const tags = run("git", ["tag", "--points-at", "HEAD"]).split("\n");
  if (!tags.includes(`v${version}`)) fail(`This commit is not tagged v${version}.`);
  const changes = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  if (changes.includes(`## ${version} (not yet released)`))
    fail(`CHANGELOG.md calls ${version} not yet released.`);
}

function readArguments() {
  try {
    return parseArgs({ options: { "dry-run": { type: "boolean" } }, allowPositionals: true });
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

function fail(message: string): never {
  console.error(`${message}\n\nnpm run release -- [--dry-run] [part …]`);
  process.exit(2);
}
