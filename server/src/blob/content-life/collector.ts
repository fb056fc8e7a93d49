import { BackgroundLoop, type BackgroundWork } from "../../catalog/background-loop.ts";
import type { ContentId, ContentStore } from "../../content/content-store.ts";
import type { RowContentStore } from "../../content/row-content-store.ts";
import { eachBounded } from "../../each-bounded.ts";
import type { Engine, Key, KeyRange } from "../../engine/engine.ts";
import { after, copyKey, partitionRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { draftBlocksRange, draftHeadKey, extentPartition } from "../blob-keys.ts";
import { decodeUncommittedBlock } from "./drafts.ts";
import { contentsOfList, decodeExtent, type Extent, type StoredContent } from "./extents.ts";
import { type LongReads, UNREPORTED_MICROS_MAX } from "./long-reads.ts";
import {
  decodeNote,
  type NotedThing,
  type Notes,
  SPARE_MICROS_MAX,
  type StoredNote,
} from "./notes.ts";
import type { Readers } from "./readers.ts";

export interface CollectorOptions {
  readonly engine: Engine;
  readonly notes: Notes;
  readonly contentStore: ContentStore;
  readonly rows: RowContentStore;
  readonly readers: Readers;
  readonly longReads: LongReads;
  readonly onError: (error: unknown) => void;
}

/** Other processes that may be reading. */
interface Others {
  /** Ids of long reads they have reported. */
  readonly reported: ReadonlySet<string>;
  /** Anything released after this version may be read by one of them that has not reported it yet. */
  readonly reportedSince: number;
}

const PERIOD_MS = 30_000;
const NOTES_AT_A_TIME = 64;
const ENTRIES_PER_COMMIT = 256;

/**
 * Frees what notes say is left over. Every step can be repeated: a note is deleted last, after the thing it
 * is about, and an entry that refers to a content is deleted after that content. Several processes may
 * collect at once.
 *
 * Where several processes share the data, other processes may be reading what was just released, so it is
 * freed two minutes later. By then they have reported what they still read, and that stays.
 *
 * Contents that a successor took over stay. A successor is itself freed only after everything it succeeded,
 * because its list of contents is what protects them from being freed.
 */
export class Collector implements BackgroundWork {
  readonly #options: CollectorOptions;
  readonly #loop: BackgroundLoop;
  /** As known at the last run. */
  #isShared = false;

  constructor(options: CollectorOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.collect(), periodMs: PERIOD_MS, onError });
    options.readers.whenDone(() => this.#loop.wake());
  }

  start(): void {
    this.#loop.start();
  }

  /** Call it when something was released: frees it soon, where that is allowed. */
  wake(): void {
    if (!this.#isShared) this.#loop.wake();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /**
   * Frees everything that can be freed now. A failure, such as a file that the system does not delete, does
   * not stop the rest; the first one is thrown at the end.
   * @param unreportedMicrosMax for tests: how long other processes may read without having reported it
   */
  async collect(unreportedMicrosMax = UNREPORTED_MICROS_MAX): Promise<void> {
    const { engine, notes } = this.#options;
    await notes.dropSpares(SPARE_MICROS_MAX);
    const failures: unknown[] = [];
    let { start, end } = notes.range();
    while (!this.#loop.closed) {
      const found: StoredNote[] = [];
      await scanToEnd(engine, { start, end }, (entry) => {
        const note = decodeNote(copyKey(entry.key), entry);
        found.push(note);
        return found.length < NOTES_AT_A_TIME;
      });
      // Checked after the notes are read: the snapshot of any later hold contains these notes already, and
      // nothing in it refers to what they are about.
      if (await this.#isHeld()) break;
      const others = await this.#others(unreportedMicrosMax);
      const settle = (note: StoredNote) => this.#settle(note, others);
      await eachBounded(found, settle).catch((error) => failures.push(error));
      const last = found.at(-1);
      if (last === undefined) break;
      start = after(last.key);
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Also read after the notes: whichever process reads what a note is about has already begun. */
  async #others(unreportedMicrosMax: number): Promise<Others | undefined> {
    const { engine, longReads } = this.#options;
    this.#isShared = engine.supports.sharing && engine.isShared!();
    if (!this.#isShared) return undefined;
    return {
      reported: await longReads.reported(),
      reportedSince: engine.nextVersion() - unreportedMicrosMax,
    };
  }

  async #isHeld(): Promise<boolean> {
    const { engine, notes } = this.#options;
    const leftOver: Key[] = [];
    const ended = await scanToEnd(engine, notes.holds(), (entry) => {
      const hold = decodeNote(copyKey(entry.key), entry);
      if (!notes.isLeftOver(hold)) return false;
      leftOver.push(hold.key);
      return true;
    });
    // Deleted before anything is freed: a live process that was wrongly taken for dead must find its hold
    // lost.
    if (ended === "complete") await this.#delete(leftOver);
    return ended === "stopped";
  }

  async #settle(note: StoredNote, others: Others | undefined): Promise<void> {
    const { engine, notes } = this.#options;
    if (!notes.isLeftOver(note)) return;
    if (note.maker !== undefined) {
      // From here on the maker, if it is alive after all, cannot commit a reference to the thing.
      await engine.commit({
        version: engine.nextVersion(),
        checks: [{ key: note.key, expected: note.version }],
        puts: [notes.garbage(note.thing)],
        deletes: [note.key],
      });
      this.wake();
      return;
    }
    if (others && (note.version > others.reportedSince || others.reported.has(note.thing.id)))
      return;
    if (await this.#mustStay(note.thing)) return;
    await this.#free(note);
    await this.#delete([note.key]);
    if (note.successor !== undefined) this.#loop.wake();
  }

  async #mustStay({ kind, id }: NotedThing): Promise<boolean> {
    const { engine, notes, readers } = this.#options;
    if (readers.mustWaitFor(id)) return true;
    if (kind !== "list") return false;
    const ended = await scanToEnd(engine, notes.succeededBy(id), () => false);
    return ended === "stopped";
  }

  async #free({ thing, successor }: StoredNote): Promise<void> {
    switch (thing.kind) {
      case "content":
        await this.#options.contentStore.delete(thing.id);
        break;
      case "list": {
        const kept = await this.#kept(successor);
        await this.#freeEntries(partitionRange(extentPartition(thing.id)), kept, (value) =>
          thing.alone ? undefined : contentOf(decodeExtent(value)),
        );
        break;
      }
      case "draft": {
        const kept = await this.#kept(successor);
        await this.#freeEntries(draftBlocksRange(thing.id), kept, decodeUncommittedBlock);
        await this.#delete([draftHeadKey(thing.id)]);
        break;
      }
      case "hold":
    }
  }

  /** The contents of a successor's list. Read before those of the thing it succeeded: see the class. */
  async #kept(successor: string | undefined): Promise<ReadonlySet<ContentId>> {
    if (successor === undefined) return new Set();
    return new Set((await contentsOfList(this.#options.engine, successor)).keys());
  }

  async #freeEntries(
    range: KeyRange,
    kept: ReadonlySet<ContentId>,
    referredBy: (value: Uint8Array) => StoredContent | undefined,
  ): Promise<void> {
    const { engine, contentStore, rows } = this.#options;
    for (let more = true; more; ) {
      const entries: Key[] = [];
      // Sets, because a list may contain a block several times.
      const inStore = new Set<ContentId>();
      const inRows = new Set<ContentId>();
      await scanToEnd(engine, range, ({ key, value }) => {
        entries.push(copyKey(key));
        const content = referredBy(value);
        if (content !== undefined && !kept.has(content.id)) {
          (content.in === "store" ? inStore : inRows).add(content.id);
        }
        return entries.length < ENTRIES_PER_COMMIT;
      });
      await eachBounded(inStore, (id) => contentStore.delete(id));
      await this.#delete([...Array.from(inRows, (id) => rows.keyOf(id)), ...entries]);
      more = entries.length === ENTRIES_PER_COMMIT;
    }
  }

  async #delete(deletes: readonly Key[]): Promise<void> {
    const { engine } = this.#options;
    if (deletes.length === 0) return;
    await engine.commit({ version: engine.nextVersion(), checks: [], puts: [], deletes });
  }
}

function contentOf(extent: Extent): StoredContent | undefined {
  return "bytes" in extent ? undefined : extent;
}
