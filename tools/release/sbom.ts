import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

function component(name: string): object {
  const { version, license } = manifest(name);
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  const facts = { type: "library", name, version, scope: "required", purl };
  return { "bom-ref": `${name}@${version}`, ...facts, licenses: [{ license: { id: license } }] };
}
