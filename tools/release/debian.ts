import { chmodSync, copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { type Architecture, buildExecutable } from "./executable.ts";
import { manifestOf, root } from "./manifests.ts";
import { run } from "./run.ts";

/** Debian's names of the architectures. */
const DEBIAN: Readonly<Record<Architecture, string>> = { x64: "amd64", arm64: "arm64" };

/**
 * Builds the Debian package around the executable: the command, a unit for systemd, a user of its own.
 * @returns its path and that of the list of its components, which are the executable's
 */
export async function buildDebianPackage(
  folder: string,
  architecture: Architecture,
): Promise<readonly string[]> {
  const { version, description = "" } = manifestOf("cli");
  const executable = join(folder, `rowhouse-${version}-linux-${architecture}`);
  if (!existsSync(executable)) await buildExecutable(folder, architecture);
  const tree = join(folder, "stage", `debian-${architecture}`);
  const place = (path: string, text: string | Uint8Array, mode = 0o644) => {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    writeFileSync(join(tree, path), text);
    chmodSync(join(tree, path), mode);
  };
  const copy = (from: string, path: string, mode = 0o644) => {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    copyFileSync(from, join(tree, path));
    chmodSync(join(tree, path), mode);
  };
  const zipped = (text: string) => gzipSync(text, { level: 9 });
  const doc = "usr/share/doc/rowhouse";
  copy(executable, "usr/bin/rowhouse", 0o755);
  copy(join(root, "deploy/rowhouse.service"), "usr/lib/systemd/system/rowhouse.service");
  copy(join(root, "deploy/debian/environment"), "etc/rowhouse/environment");
  for (const script of ["postinst", "prerm", "postrm"])
    copy(join(root, "deploy/debian", script), `DEBIAN/${script}`, 0o755);
  copy(join(root, "deploy/debian/copyright"), `${doc}/copyright`);
  copy(join(root, "deploy/debian/lintian-overrides"), "usr/share/lintian/overrides/rowhouse");
  copy(`${executable}.NOTICES.txt`, `${doc}/NOTICES.txt`);
  run("gzip", ["--best", "--no-name", "--force", join(tree, doc, "NOTICES.txt")]);
  place(`${doc}/changelog.gz`, zipped(changelog(version)));
  place("usr/share/man/man1/rowhouse.1.gz", zipped(manualPage(version, description)));
  place("DEBIAN/conffiles", "/etc/rowhouse/environment\n");
  place("DEBIAN/control", control(version, DEBIAN[architecture]));
  const output = join(folder, `rowhouse_${version}_${DEBIAN[architecture]}.deb`);
  run("dpkg-deb", ["--root-owner-group", "-Zgzip", "-z6", "--build", tree, output]);
  const bom = output.replace(/\.deb$/, ".deb.cdx.json");
  copyFileSync(`${executable}.cdx.json`, bom);
  return [output, bom];
}

const MAINTAINER = "The maintainers of Rowhouse <maintainers@rowhouse.example>";

/** The libraries are those that Node's own executable names. */
function control(version: string, architecture: string): string {
  return [
    "Package: rowhouse",
    `Version: ${version}`,
    `Architecture: ${architecture}`,
    `Maintainer: ${MAINTAINER}`,
    "Depends: adduser, libatomic1, libc6 (>= 2.28), libgcc-s1, libstdc++6 (>= 8)",
    "Section: database",
    "Priority: optional",
    "Description: table store that speaks the Azure Table, Queue and Blob protocols",
    " Programs written for the cloud's storage services run against it unchanged. It",
    " stores every acknowledged write on disk, or in PostgreSQL, and reports what",
    " each query reads.",
    "",
  ].join("\n");
}

function changelog(version: string): string {
  return [
    `rowhouse (${version}) unstable; urgency=medium`,
    "",
    "  * What changed is in the project's CHANGELOG.md.",
    "",
    ` -- ${MAINTAINER}  Thu, 01 Jan 1970 00:00:00 +0000`,
    "",
  ].join("\n");
}

function manualPage(version: string, description: string): string {
  return [
    `.TH ROWHOUSE 1 "" "rowhouse ${version}"`,
    ".SH NAME",
    "rowhouse \\- table store that speaks the Azure Table, Queue and Blob protocols",
    ".SH SYNOPSIS",
    ".B rowhouse",
    ".RI [ command ]",
    ".RI [ options ]",
    ".SH DESCRIPTION",
    description,
    ".PP",
    "Without a command it serves. \\fBrowhouse help\\fR lists the commands, and",
    "\\fBrowhouse help\\fR \\fIcommand\\fR the options of one.",
    ".SH EXIT STATUS",
    "0 if all is well, 1 if a command found something, 2 if it could not run.",
    ".SH FILES",
    "\\fI/etc/rowhouse/rowhouse.json\\fR has the accounts of the service,",
    "\\fI/etc/rowhouse/environment\\fR its environment, \\fI/var/lib/rowhouse\\fR its data.",
    "",
  ].join("\n");
}
