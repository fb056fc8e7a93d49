import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./run.ts";

/**
 * Lists every package that installing a package brings, in CycloneDX, as `npm sbom` prints it.
 * @param stage the folder that the tarball was packed from
 * @returns the path of the list, beside the tarball
 */
export function writeSbom(tarball: string, stage: string): string {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-sbom-"));
  try {
    cpSync(join(stage, "package.json"), join(folder, "package.json"));
    run("npm", ["install", "--package-lock-only", "--ignore-scripts"], folder);
    const list = run("npm", ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx"], folder);
    const file = tarball.replace(/\.tgz$/, ".cdx.json");
    writeFileSync(file, list);
    return file;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
