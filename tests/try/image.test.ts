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
import { Image, imageNeeds } from "../../tools/release/image.ts";
import { run } from "../../tools/release/run.ts";
import { TRIES_ALL } from "./empty-folder.ts";
import { CONTRACT } from "./switch-contract.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const IMAGE_BYTES_MAX = 90e6;

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

/** Needs Debian's buildah and mmdebstrap, and root. */
if (TRIES_ALL) {
  describe("The image", () => {
    const needs = imageNeeds();
    if (needs !== undefined) {
      it("is not tried here", (t) => t.diagnostic(`that needs ${needs}`));
      return;
    }
    const folder = mkdtempSync(join(root, ".build/try-image-"));
    let image: Image;
    let mounted = "";

    before(async () => {
      image = await Image.build(folder);
      mounted = image.mount();
    });
    after(() => rmSync(folder, { recursive: true, force: true }));

    it("has at most 90 MB compressed", (t) => {
      const archive = join(folder, "image.tar");
      image.buildah("push", "rowhouse", `oci-archive:${archive}`);
      const { size } = statSync(archive);
      t.diagnostic(`${(size / 1e6).toFixed(1)} MB`);
      assert.ok(size <= IMAGE_BYTES_MAX, `${(size / 1e6).toFixed(1)} MB`);
    });

    it("has the programs with which some test containers look for ports", () => {
      for (const tool of ["sh", "grep", "awk"]) run("chroot", [mounted, "which", tool]);
    });

    it("says how it is healthy, and what it exposes", () => {
      const text = image.buildah("inspect", "--type", "image", "rowhouse");
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
