import {
  closeSync,
  constants,
  existsSync,
  fchownSync,
  lchownSync,
  lstatSync,
  openSync,
  readdirSync,
} from "node:fs";
import { join } from "node:path";
import { CONTENTS_FOLDER } from "@rowhouse/server/content/file-content-store";
import { DATA_FILE, LOCK_FILE } from "@rowhouse/server/engine/lmdb/data-file";
import { makeFolder } from "@rowhouse/server/engine/make-folder";

/** What is in a data folder. */
const OURS: readonly string[] = [DATA_FILE, LOCK_FILE, CONTENTS_FOLDER];

/** What the process writes, if anything, each created where it is missing. */
interface Written {
  /** The data folder. */
  readonly location: string | undefined;
  readonly recording: string | undefined;
}

/**
 * Gives up root for the user of `ROWHOUSE_RUN_AS`. Images are started as root, because modules for tests copy keys
 * into the container that only root may read, and mount folders that only root may write; both are dealt with before.
 * Does nothing for a process that is not root.
 * @param runAs user and group, such as `10001:10001`
 * @param written it, and what is ours in a data folder, become the user's if they are root's
 * @throws Error if `runAs` has another form, or names root
 */
export function giveUpRoot(runAs: string | undefined, { location, recording }: Written): void {
  if (!runAs || process.getuid?.() !== 0) return;
  const [, uid = 0, gid = 0] = (/^(\d{1,9}):(\d{1,9})$/.exec(runAs) ?? []).map(Number);
  if (uid === 0 || gid === 0) {
    throw new Error(
      `ROWHOUSE_RUN_AS is "${runAs}"; it must be the numbers of a user and a group other than root, such as 10001:10001.`,
    );
  }
  if (location !== undefined) handOver(location, uid, gid);
  if (recording !== undefined) handOverFile(recording, uid, gid);
  process.setgroups?.([gid]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

function handOver(location: string, uid: number, gid: number): void {
  makeFolder(location);
  const names = readdirSync(location);
  // A folder with other things in it may be somebody's home.
  if (names.every((name) => OURS.includes(name)) && lstatSync(location).uid === 0)
    lchownSync(location, uid, gid);
  for (const name of OURS) {
    const path = join(location, name);
    if (existsSync(path) && lstatSync(path).uid === 0) handOverAll(path, uid, gid);
  }
}

function handOverAll(path: string, uid: number, gid: number): void {
  // Links are not followed.
  lchownSync(path, uid, gid);
  if (!lstatSync(path).isDirectory()) return;
  for (const name of readdirSync(path)) handOverAll(join(path, name), uid, gid);
}

/** A device stays as it is, and so does what is behind a link. */
function handOverFile(path: string, uid: number, gid: number): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined && (!found.isFile() || found.uid !== 0)) return;
  const { O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
  const file = openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW, 0o600);
  fchownSync(file, uid, gid);
  closeSync(file);
}
