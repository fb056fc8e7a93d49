import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { buildExecutable } from "./executable.ts";
import { manifestOf, root } from "./manifests.ts";
import { run } from "./run.ts";
import { addToSbom } from "./sbom.ts";

/**
 * What Debian's own slim image leaves out. The base is made of Debian's packages as that image is, because a registry
 * is not needed for that: the same programs and libraries as `FROM debian:bookworm-slim` in the Dockerfile.
 */
const LEFT_OUT = ["doc/*", "man/*", "info/*", "locale/*", "groff/*", "lintian/*", "linda/*"];

/** What is missing to build an image here; undefined if nothing is. */
export function imageNeeds(): string | undefined {
  const missing = ["buildah", "mmdebstrap"].filter(
    (tool) => spawnSync(tool, ["--version"]).status !== 0,
  );
  if (missing.length > 0) return `Debian's ${missing.join(" and ")}`;
  return process.getuid?.() === 0 ? undefined : "root";
}

/** An image, and where buildah keeps it. */
export class Image {
  readonly #storage: readonly string[];
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
    this.#storage = [
      ...["--storage-driver", "vfs", "--root", join(folder, "storage")],
      ...["--runroot", join(folder, "run")],
    ];
  }

  /** Builds the image of `deploy/Dockerfile` for x64. @param folder where the executable is, or is built */
  static async build(folder: string): Promise<Image> {
    const executable = join(folder, `rowhouse-${manifestOf("cli").version}-linux-x64`);
    if (!existsSync(executable)) await buildExecutable(folder, "x64");
    const stage = join(folder, "stage", "image");
    rmSync(stage, { recursive: true, force: true });
    mkdirSync(stage, { recursive: true });
    const image = new Image(stage);
    const base = join(stage, "base.tar");
    run("mmdebstrap", [
      // Without the last two, the base has all of Perl in it, which would merge /bin into /usr.
      ...["--variant=minbase", "--include=libatomic1,usr-is-merged"],
      "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
      ...LEFT_OUT.map((path) => `--dpkgopt=path-exclude=/usr/share/${path}`),
      ...["--dpkgopt=path-include=/usr/share/doc/*/copyright", "bookworm", base],
    ]);
    const scratch = image.buildah("from", "scratch");
    image.buildah("add", scratch, base, "/");
    image.buildah("commit", scratch, "rowhouse-base");
    for (const file of [executable, `${executable}.NOTICES.txt`])
      copyFileSync(file, join(stage, file.slice(folder.length)));
    image.buildah(
      ...["bud", "--isolation", "chroot", "--format", "docker"],
      ...["--build-arg", "BASE=localhost/rowhouse-base"],
      ...["--file", join(root, "deploy/Dockerfile"), "--tag", "rowhouse", stage],
    );
    return image;
  }

  buildah(...args: readonly string[]): string {
    return run("buildah", [...this.#storage, ...args], this.#folder).trim();
  }

  /** @returns the path of its root, which is one of its containers */
  mount(): string {
    return this.buildah("mount", this.buildah("from", "rowhouse"));
  }
}

/** @returns the paths of the image as an OCI archive, compressed, and of the list of its components */
export async function buildImage(folder: string): Promise<readonly string[]> {
  const needs = imageNeeds();
  if (needs !== undefined) {
    console.error(`No image is built: that needs ${needs}.`);
    return [];
  }
  const image = await Image.build(folder);
  const name = join(folder, `rowhouse-${manifestOf("cli").version}-linux-x64`);
  const [archive, bom] = [`${name}.oci.tar`, `${name}.oci.cdx.json`];
  image.buildah("push", "rowhouse", `oci-archive:${archive}`);
  const status = readFileSync(join(image.mount(), "var/lib/dpkg/status"), "utf8");
  addToSbom(`${name}.cdx.json`, bom, debianPackages(status));
  return [archive, bom];
}

/** The names and versions in a `status` file of dpkg. */
function debianPackages(status: string): Readonly<Record<string, string>> {
  const fields = (text: string, name: string) =>
    new RegExp(`^${name}: (.*)$`, "m").exec(text)?.[1] ?? "";
  const packages = status.split("\n\n").filter((text) => text.startsWith("Package: "));
  return Object.fromEntries(
    packages.map((text) => [fields(text, "Package"), fields(text, "Version")]),
  );
}
