import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { manifestOf } from "./manifests.ts";
import { manifest } from "./notices.ts";
import type { PackedPackage } from "./npm-packages.ts";
import { run } from "./run.ts";

/**
 * Lists every package that installing a package brings, in CycloneDX, as `npm sbom` prints it, and every package that
 * its bundle includes.
 * @returns the path of the list, beside the tarball
 */
export function writeSbom({ tarball, stage, included }: PackedPackage): string {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-sbom-"));
  try {
    cpSync(join(stage, "package.json"), join(folder, "package.json"));
    run("npm", ["install", "--package-lock-only", "--ignore-scripts"], folder);
    const args = ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx"];
    const list = JSON.parse(run("npm", args, folder)) as { readonly components: object[] };
    list.components.push(...included.map(component));
    const file = tarball.replace(/\.tgz$/, ".cdx.json");
    writeFileSync(file, `${JSON.stringify(list, null, 2)}\n`);
    return file;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Lists what an executable includes, in the same format.
 * @param packages names of packages from npm
 * @param others versions of all else, by name
 */
export function writeFileSbom(
  file: string,
  packages: readonly string[],
  others: Readonly<Record<string, string>>,
): void {
  const { name, version } = manifestOf("cli");
  const list = {
    ...{ bomFormat: "CycloneDX", specVersion: "1.5", version: 1 },
    metadata: { component: { type: "application", name, version } },
    components: [...packages.map(component), ...libraries(others, () => undefined)],
  };
  writeFileSync(file, `${JSON.stringify(list, null, 2)}\n`);
}

/** Writes a list with Debian's packages added, by name and version. */
export function addToSbom(
  from: string,
  to: string,
  debian: Readonly<Record<string, string>>,
): void {
  const list = JSON.parse(readFileSync(from, "utf8")) as { readonly components: object[] };
  list.components.push(
    ...libraries(
      debian,
      (name, version) => `pkg:deb/debian/${name}@${encodeURIComponent(version)}`,
    ),
  );
  writeFileSync(to, `${JSON.stringify(list, null, 2)}\n`);
}

function libraries(
  versions: Readonly<Record<string, string>>,
  purlOf: (name: string, version: string) => string | undefined,
): object[] {
  return Object.entries(versions).map(([name, version]) => {
    const purl = purlOf(name, version);
    return { type: "library", "bom-ref": `${purl ?? name}@${version}`, name, version, purl };
  });
}

function component(name: string): object {
  const { version, license } = manifest(name);
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  const facts = { type: "library", name, version, scope: "required", purl };
  return { "bom-ref": `${name}@${version}`, ...facts, licenses: [{ license: { id: license } }] };
}
