import { storedContents } from "./blob/content-life/stored-contents.ts";
import type { FileContentStore } from "./content/file-content-store.ts";
import { type Engine, EngineError, type Key, type OnDamaged } from "./engine/engine.ts";
import { after, copyKey, EVERYTHING } from "./engine/key-codec.ts";
import { describeDamage, describeKey, readStoredNames } from "./stored-key.ts";

export interface Checked {
  entries: number;
  /** Total size of the entries' values. */
  entryBytes: number;
  /** Number of blob contents in files. */
  contents: number;
  /** Those of them that have no checksums, because a release with storage format 1 wrote them. */
  contentsUnchecked: number;
}

/** One step of reading everything. */
export interface Slice {
  readonly start: Key;
  /** The step ends once it has read as many bytes. */
  readonly bytesMax: number;
  readonly onDamaged: OnDamaged;
  /** Called with each entry, which is lent. */
  readonly onEntry?: (key: Key, version: number) => void;
}

/** Checks the entries from a key on. Returns where to go on; undefined if that was the rest. */
export async function checkEntries(
  engine: Engine,
  { start, bytesMax, onDamaged, onEntry }: Slice,
  checked: Checked,
): Promise<Key | undefined> {
  let bytes = 0;
  let last = start;
  const ended = await engine.scan(
    { start },
    ({ key, value, version }) => {
      checked.entries++;
      checked.entryBytes += value.length;
      onEntry?.(key, version);
      bytes += key.partition.length + key.sort.length + value.length;
      if (bytes < bytesMax) return true;
      last = copyKey(key);
      return false;
    },
    { onDamaged },
  );
  if (ended === "complete") return undefined;
  return ended === "stopped" ? after(last) : ended.resumeAt;
}

/**
 * Checks a content, unless it is deleted meanwhile. Returns the error if it is damaged.
 * @throws EngineError other than `Corrupt`
 */
export async function checkContent(
  contentStore: FileContentStore,
  id: string,
  checked: Checked,
): Promise<EngineError | undefined> {
  try {
    if (!(await contentStore.verify(id))) checked.contentsUnchecked++;
    checked.contents++;
    return undefined;
  } catch (error) {
    if (!(error instanceof EngineError && error.code === "Corrupt")) throw error;
    // A missing content is garbage that was freed just now; what blobs refer to is checked by `verifyAll`.
    return (await contentStore.has(id)) ? error : undefined;
  }
}

export interface Verified extends Readonly<Checked> {
  /** What is damaged or missing, in words. */
  readonly damaged: readonly string[];
}

/**
 * Reads and checks everything: a folder that is stopped, or one that servers use. Contents that blobs refer to
 * and that are missing are only reported if no other process has the data open: they may be replaced meanwhile.
 *
 * @throws EngineError
 */
export async function verifyAll(
  engine: Engine,
  contentStore: FileContentStore | undefined,
  onProgress: (checked: Readonly<Checked>) => void = () => {},
): Promise<Verified> {
  const checked: Checked = { entries: 0, entryBytes: 0, contents: 0, contentsUnchecked: 0 };
  const damaged = new Map<string, EngineError>();
  const onDamaged = (error: EngineError) => {
    // A damaged page is met again by the next step.
    damaged.set(keyText(error), error);
  };
  for (let start: Key | undefined = EVERYTHING.start; start !== undefined; ) {
    start = await checkEntries(engine, { start, bytesMax: SLICE_BYTES, onDamaged }, checked);
    onProgress(checked);
  }
  const found = await describeDamage(engine, [...damaged.values()]);
  if (contentStore === undefined) return { ...checked, damaged: found };
  const damagedContents = new Set<string>();
  for await (const id of contentStore.list()) {
    if (await checkContent(contentStore, id, checked)) damagedContents.add(id);
    onProgress(checked);
  }
  const areMissingSought = engine.supports.sharing && !engine.isShared!() && damaged.size === 0;
  if (damagedContents.size > 0 || areMissingSought) {
    found.push(
      ...(await describeContents(engine, contentStore, damagedContents, areMissingSought)),
    );
  }
  return { ...checked, damaged: found };
}

const SLICE_BYTES = 4 << 20;

function keyText({ key, message }: EngineError): string {
  if (key === undefined) return message;
  return `${Buffer.from(key.partition).toString("hex")}/${Buffer.from(key.sort).toString("hex")}`;
}

/** The blobs that damaged contents belong to, and contents that no blob refers to. */
async function describeContents(
  engine: Engine,
  contentStore: FileContentStore,
  damaged: ReadonlySet<string>,
  isSeeking: boolean,
): Promise<string[]> {
  const found: string[] = [];
  const unnamed = new Set(damaged);
  const names = await readStoredNames(engine);
  for await (const { id, blob } of storedContents(engine)) {
    const isDamaged = damaged.has(id);
    unnamed.delete(id);
    if (isDamaged) found.push(`content ${id} of ${describeKey(blob, names)}`);
    else if (isSeeking && !(await contentStore.has(id))) {
      found.push(`content ${id} of ${describeKey(blob, names)}: missing`);
    }
  }
  return [...found, ...[...unnamed].map((id) => `content ${id}, which no blob refers to`)];
}
