import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { buildExecutable } from "../../tools/release/executable.ts";
import { run } from "../../tools/release/run.ts";
import { TRIES_ALL } from "./empty-folder.ts";
import { CONTRACT } from "./switch-contract.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const IMAGE_BYTES_MAX = 90e6;
const STORAGE = ["--storage-driver", "vfs"];

describe("The files that deploy the image", () => {
  it("name only flags that the command has", () => {
    const help = run(process.execPath, [
      ...["--conditions=rowhouse-source", "--import", "tsx", join(root, "cli/src/main.ts")],
      ...["help", "serve"],
    ]);
    for (const file of ["Dockerfile", "compose.yaml", "kubernetes.yaml", "rowhouse.service"]) {
      const text = readFileSync(join(root, "deploy", file), "utf8");
      const served = Array.from(
        text.matchAll(/--(?:\w+Host|location|metrics)\b/g),
        ([flag]) => flag,
      );
      assert.ok(served.length > 0, file);
      for (const flag of served) assert.ok(help.includes(flag), `${flag} in ${file}`);
    }
  });
});

/**
 * Needs Debian's buildah and mmdebstrap, and root. The base has the same libraries and tools as the one that the
 * Dockerfile names, but is made of Debian's packages here, because a registry is not needed for that.
 */
const BASE_PACKAGES = [
  ...["base-files", "base-passwd", "coreutils", "dash", "grep", "mawk"],
  ...["libc6", "libgcc-s1", "libstdc++6", "libatomic1"],
];
/** What the packages' own scripts would do, which are not run; and texts that nobody reads there. */
const BASE_HOOK = `cd "$1" && ln -s mawk usr/bin/awk && rm -rf usr/share/locale usr/share/man usr/share/info &&
  for name in passwd group; do cp usr/share/base-passwd/$name.master etc/$name; done`;

if (TRIES_ALL && process.getuid?.() === 0) {
  describe("The image", () => {
    const folder = mkdtempSync(join(root, ".build/try-image-"));
    const storage = [
      ...STORAGE,
      "--root",
      join(folder, "storage"),
      "--runroot",
      join(folder, "run"),
    ];
    const buildah = (...args: readonly string[]) =>
      run("buildah", [...storage, ...args], folder).trim();
    let container = "";
    let mounted = "";

    before(async () => {
      await buildExecutable(folder, "x64");
      const base = join(folder, "base.tar");
      run("mmdebstrap", [
        ...["--variant=extract", `--include=${BASE_PACKAGES.join()}`],
        ...[`--customize-hook=${BASE_HOOK}`, "bookworm", base],
      ]);
      const scratch = buildah("from", "scratch");
      buildah("add", scratch, base, "/");
      buildah("commit", scratch, "rowhouse-base");
      buildah(
        ...["bud", "--isolation", "chroot", "--format", "docker"],
        ...["--build-arg", "BASE=localhost/rowhouse-base"],
        ...["--file", join(root, "deploy/Dockerfile"), "--tag", "rowhouse", folder],
      );
      container = buildah("from", "rowhouse");
      mounted = buildah("mount", container);
    });
    after(() => rmSync(folder, { recursive: true, force: true }));

    it("has at most 90 MB compressed", (t) => {
      const archive = join(folder, "image.tar");
      buildah("push", "rowhouse", `oci-archive:${archive}`);
      const { size } = statSync(archive);
      t.diagnostic(`${(size / 1e6).toFixed(1)} MB`);
      assert.ok(size <= IMAGE_BYTES_MAX, `${(size / 1e6).toFixed(1)} MB`);
    });

    it("says how it is healthy, and what it exposes", () => {
      const text = buildah("inspect", "--type", "image", "rowhouse");
      const { Docker } = JSON.parse(text);
      const { Healthcheck, Env, ExposedPorts, Entrypoint } = Docker.config;
      assert.deepEqual(Healthcheck.Test, ["CMD", "rowhouse", "healthcheck"]);
      assert.ok(Env.includes("ROWHOUSE_RUN_AS=10001:10001"));
      assert.equal(Object.keys(ExposedPorts).length, 3);
      assert.ok(!Entrypoint?.length);
    });

    it("starts for every module of the contract, in its root, and then is not root", () => {
      const bin = join(folder, "bin");
      mkdirSync(bin);
      for (const name of ["azurite", "azurite-blob", "azurite-queue", "azurite-table"]) {
        // Each start has an empty folder of its own, like a container.
        const inside =
          'cd "$(mktemp -d)" && chmod 777 . && export ROWHOUSE_RUN_AS=10001:10001 && exec "$@"';
        const script = `#!/bin/sh\nexec chroot ${mounted} sh -c '${inside}' sh ${name} "$@"\n`;
        writeFileSync(join(bin, name), script);
        chmodSync(join(bin, name), 0o755);
      }
      // With this, Node's runner believes that it runs inside a test, and skips every file.
      const { NODE_TEST_CONTEXT: _, ...env } = process.env;
      const { status, stdout } = spawnSync(
        process.execPath,
        [
          ...["--conditions=rowhouse-source", "--import", "tsx", "--test"],
          join(root, "tests/try/switch.test.ts"),
        ],
        { cwd: root, encoding: "utf8", env: { ...env, SWITCH_BIN: bin } },
      );
      assert.equal(status, 0, stdout);
      assert.ok(stdout.includes(`pass ${CONTRACT.length + 1}\n`), stdout);
    });
  });
}
