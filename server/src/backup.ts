import { lstatSync, renameSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readBlobKey } from "./blob/blob-keys.ts";
import { Notes } from "./blob/content-life/notes.ts";
import { type BlobContent, storedContents } from "./blob/content-life/stored-contents.ts";
import { storedNames } from "./catalog/catalog.ts";
import { KEY_SPACES } from "./catalog/key-spaces.ts";
import { ContentIds } from "./content/content-ids.ts";
import { CONTENTS_FOLDER, FileContentStore } from "./content/file-content-store.ts";
import { eachBounded } from "./each-bounded.ts";
import { type Check, type Engine, EngineError, type Key, type KeyRange } from "./engine/engine.ts";
import { copyKey } from "./engine/key-codec.ts";
import { type LmdbEngine, openLmdbEngine } from "./engine/lmdb/lmdb-engine.ts";
import { flushFolder, makeFolder } from "./engine/make-folder.ts";
import { scanToEnd } from "./engine/scan-to-end.ts";
import { describeDamage } from "./stored-key.ts";

export interface BackupOptions {
  /** The engine to copy; servers may use it during the backup. */
  readonly engine: LmdbEngine;
  readonly contentStore: FileContentStore;
  /** The folder to create. */
  readonly to: string;
  /** Called for each entry and each content. If it throws, the backup ends. */
  readonly onProgress?: (progress: BackupProgress) => void;
}

export interface BackupProgress {
  entries: number;
  /** Total size of the entries' values. */
  entryBytes: number;
  /** Number of blob contents stored as files. */
  contents: number;
}

export interface Backup extends Readonly<BackupProgress> {
  /** `account/container/blob` of each blob whose content is missing or damaged, sorted. */
  readonly damagedBlobs: readonly string[];
  /** What the copy lacks because it was damaged in the source. */
  readonly damagedEntries: readonly string[];
}

const CONTENTS_AT_A_TIME = 256;

/**
 * Copies a data folder as it is at one moment. The copy receives its final name once it is complete and on
 * disk. Until then it is called `….part`; a failed backup removes that folder, a crash leaves it behind.
 *
 *   1. a hold is noted         from here on no collector frees existing contents: `blob/content-life/notes.ts`
 *   2. entries are copied      from one snapshot
 *   3. contents are copied     those that the copied entries refer to
 *   4. the hold is released    fails if the hold was lost before this point
 *
 * @throws EngineError; Error when the target already exists
 */
export async function backUp({
  engine,
  contentStore,
  to,
  onProgress,
}: BackupOptions): Promise<Backup> {
  const target = resolve(to);
  const part = makePart(target);
  const notes = new Notes({
    engine,
    ids: new ContentIds(engine),
    onLeftOver() {},
    // The note is then left over, and a collector finds it.
    onError() {},
  });
  try {
    const hold = await notes.hold();
    try {
      const progress = { entries: 0, entryBytes: 0, contents: 0 };
      const damaged: EngineError[] = [];
      await engine.copyTo(part, {
        onCopied({ value }) {
          progress.entries++;
          progress.entryBytes += value.length;
          onProgress?.(progress);
        },
        onDamaged: (error) => damaged.push(error),
      });
      const damagedBlobs = await fillIn(part, notes.holds(), contentStore, () => {
        progress.contents++;
        onProgress?.(progress);
      });
      const damagedEntries = await describeDamage(engine, damaged);
      if (!(await deleteAll(engine, [hold.note], [hold.check]))) {
        throw new EngineError(
          "Unavailable",
          "A server deleted blob contents before they were copied: it cannot see this process, or the backup took more than a day.",
        );
      }
      hold.settle();
      renameSync(part, target);
      flushFolder(dirname(target));
      return { ...progress, damagedBlobs, damagedEntries };
    } finally {
      hold.giveUp();
    }
  } catch (error) {
    rmSync(part, { recursive: true, force: true });
    throw error;
  }
}

/** In the space of the processes, beside the state of the check of all data. */
const LAST_BACKUP: Key = {
  partition: Uint8Array.of(KEY_SPACES.processes),
  sort: Uint8Array.of(0x03),
};

/** Notes in the data itself when a backup of it was complete, for `lastBackupAt`. */
export async function noteBackup(engine: Engine, endedAt: number): Promise<void> {
  const value = Buffer.from(JSON.stringify({ endedAt }));
  const write = { checks: [], puts: [{ key: LAST_BACKUP, value }], deletes: [] };
  await engine.commit({ ...write, version: engine.nextVersion() });
}

/** In milliseconds since 1970; undefined if there is none. */
export async function lastBackupAt(engine: Engine): Promise<number | undefined> {
  const [entry] = await engine.get([LAST_BACKUP]);
  if (entry === undefined) return undefined;
  const { endedAt } = JSON.parse(Buffer.from(entry.value).toString("utf8")) as {
    readonly endedAt: number;
  };
  return endedAt;
}

function makePart(target: string): string {
  // A dangling symbolic link counts as existing, too.
  if (at(target, () => lstatSync(target, { throwIfNoEntry: false }))) {
    throw new Error(`${target} already exists; name a folder that does not.`);
  }
  const part = `${target}.part`;
  at(target, () => makeFolder(dirname(target)));
  if (!at(target, () => makeFolder(part, 0o700))) {
    throw new Error(
      `${part} belongs to a backup that is running or was interrupted; if it was interrupted, remove the folder.`,
    );
  }
  return part;
}

/**
 * @throws Error where the system cannot create a folder, for example below a file, in /proc, or without
 * permission
 */
function at<Found>(target: string, ask: () => Found): Found {
  try {
    return ask();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${target} cannot be created; name a folder in a writable place. (${reason})`, {
      cause,
    });
  }
}

/** Adds the contents to a copy of the entries. Returns the blobs whose content is missing. */
async function fillIn(
  folder: string,
  holds: KeyRange,
  contentStore: FileContentStore,
  onCopied: () => void,
): Promise<string[]> {
  const damaged: Key[] = [];
  let damagedBlobs: string[] = [];
  const engine = await openLmdbEngine({ path: folder });
  try {
    // This backup noted its hold before the snapshot, and other backups may have noted theirs. None belongs
    // in the copy.
    const held: Key[] = [];
    await scanToEnd(engine, holds, ({ key }) => held.push(copyKey(key)) > 0);
    await deleteAll(engine, held, []);
    const copies = await FileContentStore.open(join(folder, CONTENTS_FOLDER));
    const copy = async ({ id, blob }: BlobContent) => {
      try {
        await contentStore.verify(id);
        await copies.copyFrom(contentStore, id, id);
        onCopied();
      } catch (error) {
        if (!(error instanceof EngineError && error.code === "Corrupt")) throw error;
        damaged.push(blob);
      }
    };
    let some: BlobContent[] = [];
    for await (const content of storedContents(engine)) {
      some.push(content);
      if (some.length < CONTENTS_AT_A_TIME) continue;
      await eachBounded(some, copy);
      some = [];
    }
    await eachBounded(some, copy);
    // One flush for all contents: flushing each content takes most of the time.
    await copies.flush();
    if (damaged.length > 0) damagedBlobs = (await namesOf(damaged, engine)).sort();
  } finally {
    await engine.close();
  }
  flushFolder(folder);
  return damagedBlobs;
}

async function namesOf(blobs: readonly Key[], engine: Engine): Promise<string[]> {
  const containers = await storedNames(engine, KEY_SPACES.blobCatalog);
  return blobs.map((key) => {
    const { accountId, containerId, name } = readBlobKey(key);
    const found = containers.find(
      (each) => each.accountId === accountId && each.id === containerId,
    );
    // The container was removed and the reaper has not freed it yet.
    if (!found) return `(removed container ${containerId})/${name}`;
    return `${found.account}/${found.name}/${name}`;
  });
}

async function deleteAll(
  engine: Engine,
  deletes: readonly Key[],
  checks: readonly Check[],
): Promise<boolean> {
  const version = engine.nextVersion();
  const { committed } = await engine.commit({ version, checks, puts: [], deletes });
  return committed;
}
