import { lstatSync, renameSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readBlobKey } from "./blob/blob-keys.ts";
import { Notes } from "./blob/notes.ts";
import { type StoredContent, storedContents } from "./blob/stored-contents.ts";
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

export interface BackupOptions {
  /** What is copied; servers may use it meanwhile. */
  readonly engine: LmdbEngine;
  readonly contents: FileContentStore;
  /** The folder to make. */
  readonly to: string;
  /** Called for each entry and each content; what it throws ends the backup. */
  readonly onProgress?: (progress: BackupProgress) => void;
}

export interface BackupProgress {
  entries: number;
  /** Of their values. */
  entryBytes: number;
  /** Contents of blobs that are files. */
  contents: number;
}

export interface Backup extends Readonly<BackupProgress> {
  /** `account/container/blob` of those whose content was not there to copy, in order. */
  readonly damagedBlobs: readonly string[];
}

const CONTENTS_AT_A_TIME = 256;

/**
 * Copies a data folder as it is at one moment. The copy has its name when it is whole and on disk; until
 * then it stands beside it as `….part`, which a failure removes and a crash leaves.
 *
 *   a hold is noted          from here on no collector frees what is there: `blob/notes.ts`
 *   the entries are copied   as one snapshot shows them
 *   the contents are copied  that these refer to, found in the copy
 *   the hold is let go       which fails where it did not hold until now
 *
 * @throws EngineError; Error when there is something at the place already
 */
export async function backUp({ engine, contents, to, onProgress }: BackupOptions): Promise<Backup> {
  const target = resolve(to);
  const part = makePart(target);
  const notes = new Notes({
    engine,
    ids: new ContentIds(engine),
    onLeftOver() {},
    // The note is left over then, and found by a collector.
    onError() {},
  });
  try {
    const hold = await notes.hold();
    try {
      const progress = { entries: 0, entryBytes: 0, contents: 0 };
      await engine.copyTo(part, ({ value }) => {
        progress.entries++;
        progress.entryBytes += value.length;
        onProgress?.(progress);
      });
      const damagedBlobs = await fillIn(part, notes.holds(), contents, () => {
        progress.contents++;
        onProgress?.(progress);
      });
      if (!(await deleteAll(engine, [hold.note], [hold.check]))) {
        throw new EngineError(
          "Unavailable",
          "A server freed contents before they were copied: it cannot see this process, or a day went by.",
        );
      }
      hold.settle();
      renameSync(part, target);
      flushFolder(dirname(target));
      return { ...progress, damagedBlobs };
    } finally {
      hold.giveUp();
    }
  } catch (error) {
    rmSync(part, { recursive: true, force: true });
    throw error;
  }
}

function makePart(target: string): string {
  // A link that leads nowhere, too.
  if (at(target, () => lstatSync(target, { throwIfNoEntry: false }))) {
    throw new Error(`${target} exists already; name a folder that does not.`);
  }
  const part = `${target}.part`;
  at(target, () => makeFolder(dirname(target)));
  if (!at(target, () => makeFolder(part, 0o700))) {
    throw new Error(`${part} is of a backup that runs, or that did not end: remove it then.`);
  }
  return part;
}

/** @throws Error where the system makes no folder, such as below a file or /proc, or where others write */
function at<Found>(target: string, ask: () => Found): Found {
  try {
    return ask();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${target} cannot be made; name a folder where one may be made. (${reason})`, {
      cause,
    });
  }
}

/** Adds the contents to a copy of the entries. Answers the blobs whose content is missing. */
async function fillIn(
  folder: string,
  holds: KeyRange,
  contents: FileContentStore,
  onCopied: () => void,
): Promise<string[]> {
  const damaged: Key[] = [];
  let damagedBlobs: string[] = [];
  const engine = await openLmdbEngine({ path: folder });
  try {
    // This backup's, noted before the snapshot, and those of others beside it: none is of the copy.
    const held: Key[] = [];
    await scanToEnd(engine, holds, ({ key }) => held.push(copyKey(key)) > 0);
    await deleteAll(engine, held, []);
    const copies = await FileContentStore.open(join(folder, CONTENTS_FOLDER));
    const copy = async ({ id, blob }: StoredContent) => {
      try {
        await copies.copyFrom(contents, id, id);
        onCopied();
      } catch (error) {
        if (!(error instanceof EngineError && error.code === "Corrupt")) throw error;
        damaged.push(blob);
      }
    };
    let some: StoredContent[] = [];
    for await (const content of storedContents(engine)) {
      some.push(content);
      if (some.length < CONTENTS_AT_A_TIME) continue;
      await eachBounded(some, copy);
      some = [];
    }
    await eachBounded(some, copy);
    // Once for all: a flush for each content takes most of the time.
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
    // Its container was removed, and the reaper has not come to it yet.
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
