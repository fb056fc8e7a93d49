import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { buildDebianPackage } from "../../tools/release/debian.ts";
import { manifestOf } from "../../tools/release/manifests.ts";
import { run } from "../../tools/release/run.ts";
import { TRIES_ALL } from "./empty-folder.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("The unit for systemd", () => {
  it("is as closed as a database's can be, says systemd where it is installed", (t) => {
    const unit = join(root, "deploy/rowhouse.service");
    const args = ["security", "--offline=yes", "--threshold=25", unit];
    const { status, error, stdout, stderr } = spawnSync("systemd-analyze", args, {
      encoding: "utf8",
    });
    if (error) return t.diagnostic("systemd-analyze is not installed");
    assert.equal(status, 0, stdout + stderr);
  });
});

describe("The Debian package around any executable", () => {
  it("is clean for lintian, where that is installed", async (t) => {
    if (spawnSync("lintian", ["--version"]).error) return t.diagnostic("lintian is not installed");
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-debian-"));
    try {
      // Building the real one takes a minute, and another Node.
      const executable = join(folder, `rowhouse-${manifestOf("cli").version}-linux-x64`);
      copyFileSync("/bin/true", executable);
      for (const ending of ["NOTICES.txt", "cdx.json"])
        writeFileSync(`${executable}.${ending}`, "none\n");
      const [file = ""] = await buildDebianPackage(folder, "x64");
      assertClean(file);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

function assertClean(file: string): void {
  const args = ["--fail-on", "error,warning", "--tag-display-limit", "0", file];
  const { status, stdout } = spawnSync("lintian", args, { encoding: "utf8" });
  assert.equal(status, 0, stdout);
}

/** Needs Debian's mmdebstrap and lintian, and root. */
if (TRIES_ALL && process.getuid?.() === 0) {
  describe("The Debian package", () => {
    const folder = mkdtempSync(join(root, ".build/try-debian-"));
    // Its users are others, who must be able to enter it.
    const installed = mkdtempSync(join(tmpdir(), "rowhouse-debian-"));
    let file = "";
    before(async () => {
      [file = ""] = await buildDebianPackage(folder, "x64");
      const base = process.env.TRY_DEBIAN_ROOT;
      if (base) run("tar", ["--extract", "--file", base, "--directory", installed]);
      else
        run("mmdebstrap", [
          "--variant=minbase",
          "--include=adduser,libatomic1",
          "bookworm",
          installed,
        ]);
      run("chmod", ["755", installed]);
      copyFileSync(file, join(installed, basename(file)));
    });
    after(() => {
      for (const each of [folder, installed]) rmSync(each, { recursive: true, force: true });
    });

    it("is clean for lintian", () => {
      assertClean(file);
    });

    it("is installed, with a user and an account of its own", () => {
      run("chroot", [installed, "dpkg", "--install", `/${basename(file)}`]);
      const { mode } = statSync(join(installed, "etc/rowhouse/rowhouse.json"));
      assert.equal(mode & 0o777, 0o640);
      const accounts = run("chroot", [
        ...[installed, "rowhouse", "account", "list", "--config", "/etc/rowhouse/rowhouse.json"],
      ]);
      assert.equal(accounts, "rowhouse  2 keys\n");
    });

    it("serves as its user, and keeps the data when it is purged", async () => {
      const data = "/var/lib/rowhouse";
      run("chroot", [installed, "install", "-d", "-o", "rowhouse", "-g", "rowhouse", data]);
      const env = { PATH: process.env.PATH, ROWHOUSE_CONFIG: "/etc/rowhouse/rowhouse.json" };
      const ports = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];
      const child = spawn(
        "chroot",
        [
          ...["--userspec=rowhouse:rowhouse", installed],
          ...["/usr/bin/rowhouse", "serve", "--location", data, ...ports],
        ],
        { env, stdio: ["ignore", "pipe", "inherit"] },
      );
      const exited = once(child, "exit");
      for await (const line of createInterface({ input: child.stdout })) {
        const [, url] = /Table service is successfully listening at (\S+)/.exec(line) ?? [];
        if (!url) continue;
        run("chroot", [installed, "rowhouse", "healthcheck", "--against", url]);
        child.kill("SIGTERM");
      }
      assert.deepEqual(await exited, [0, null]);
      run("chroot", [installed, "dpkg", "--purge", "rowhouse"]);
      assert.ok(statSync(join(installed, data, "data.mdb")).size > 0);
      assert.throws(() => statSync(join(installed, "etc/rowhouse")));
    });
  });
}
