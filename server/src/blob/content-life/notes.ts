import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { latin1, toBuffer } from "../../byte-views.ts";
import { KEY_SPACES } from "../../catalog/key-spaces.ts";
import type { ContentIds } from "../../content/content-ids.ts";
import type { ContentId } from "../../content/content-store.ts";
import {
  type AtomicWrite,
  type Check,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type KeyRange,
  type Put,
} from "../../engine/engine.ts";
import { partitionRange, sortPrefixRange } from "../../engine/key-codec.ts";

/*
 * Blob records refer to things stored outside of them: contents, lists of extents, drafts. Notes ensure that
 * none of these is left over after a crash at any moment, without anyone ever looking at all of them. A note
 * is one of:
 *
 *   in the making   written before the first byte of the thing is stored
 *   garbage         written by the commit in which the last record releases the thing
 *   spare           in the making, for a content that is not begun yet: the commit that ends one content
 *                   writes it, so that the next upload need not wait for a note of its own
 *   hold            of a process that copies everything as of one moment; nothing that existed then is freed
 *
 * and moves or is deleted as follows:
 *
 *   in the making ── the commit that refers to the thing, which checks the note ──▶ deleted
 *   in the making ── its maker gives up, or the collector finds the maker gone ───▶ garbage
 *   spare         ── an upload takes it ──▶ in the making; none takes it for a minute ──▶ deleted
 *   garbage       ── the collector has freed the thing ──▶ deleted
 *   hold          ── its maker releases it, or the collector finds the maker gone ──▶ deleted
 *
 * `collector.ts` frees the things. For a spare of a dead process it finds nothing, or what an upload that
 * took the spare had stored.
 */

/** A thing that notes are about. */
export type NotedThing =
  /** A content in the content store. Rows need no notes: the commit that releases them deletes them. */
  | { readonly kind: "content"; readonly id: ContentId }
  /** A list of extents; `alone` if it is freed without the contents it refers to. */
  | { readonly kind: "list"; readonly id: string; readonly alone?: true }
  | { readonly kind: "draft"; readonly id: string }
  /** Nothing in itself: while its maker lives, nothing is freed. */
  | { readonly kind: "hold"; readonly id: string };

export interface Note {
  readonly thing: NotedThing;
  /** The list that took over some of the thing's contents, which therefore stay. */
  readonly successor?: string;
  /** The process that is making the thing; absent for garbage. */
  readonly maker?: Maker;
}

interface Maker {
  readonly host: string;
  readonly pid: number;
  /** Distinguishes this process from others that had the same pid. */
  readonly run: string;
}

/** A note as stored. */
export interface StoredNote extends Note {
  readonly key: Key;
  readonly version: number;
}

/** A thing in the making, until a commit settles it or its maker gives it up. */
export interface Making {
  /** Fails once another process has given the thing up. */
  readonly check: Check;
  /** To be deleted by the commit that refers to the thing. */
  readonly note: Key;
  /**
   * Stores a part of the thing, under the check, so that no part is stored after another process has freed
   * the thing.
   * @throws EngineError `Unavailable` when another process has given the thing up.
   */
  put(puts: readonly Put[]): Promise<void>;
  /** Call it when that commit has succeeded. */
  settle(): void;
  /**
   * Call it when that commit will not happen; after `settle` it does nothing. What is stored of the thing
   * becomes garbage.
   */
  giveUp(): void;
  /**
   * Call it when the outcome of that commit is unknown. The note decides: it exists until the commit happens,
   * and once the collector has deleted it, the commit fails.
   */
  leaveInDoubt(): void;
}

/** A content in the making. */
export interface ContentMaking extends Making {
  readonly id: ContentId;
  /** To be put by the commit that refers to the content: the note of the next one. */
  readonly spare: Put;
}

/** A durable note of a content that is not begun, and when it was written. */
interface Spare {
  readonly id: ContentId;
  readonly note: Key;
  /** Microseconds since 1970, like versions. */
  readonly since: number;
}

/** No upload takes longer. What another process has been making for longer is left over. */
const MAKING_MICROS_MAX = 24 * 3600 * 1e6;
/** A spare that is not taken within this time is dropped. */
export const SPARE_MICROS_MAX = 60 * 1e6;
const PARTITION = Uint8Array.of(KEY_SPACES.blobNotes);
const NO_SUCCESSOR = "-";
/** Takes the place of the successor in the keys of holds. */
const HOLDS = "+";

export interface NotesOptions {
  readonly engine: Engine;
  readonly ids: ContentIds;
  /** Called when something may need to be freed. */
  readonly onLeftOver: () => void;
  readonly onError: (error: unknown) => void;
}

export class Notes {
  readonly #options: NotesOptions;
  readonly #self: Maker = {
    host: hostname(),
    pid: process.pid,
    run: randomBytes(6).toString("hex"),
  };
  /** Keys of the notes of everything that this process is making. */
  readonly #making = new Set<string>();
  /** Spares whose notes are durable. */
  #spares: Spare[] = [];

  constructor(options: NotesOptions) {
    this.#options = options;
  }

  /** Protects everything that exists, for a day at most. To release the hold, delete its note under its check. */
  hold(): Promise<Making> {
    return this.#begin({ kind: "hold", id: this.#options.ids.next() }, this.#newKey(HOLDS));
  }

  /** Notes durably that something is in the making. */
  begin(thing: NotedThing): Promise<Making> {
    return this.#begin(thing, this.#newKey(undefined));
  }

  async #begin(thing: NotedThing, note: Key): Promise<Making> {
    const text = textOf(note);
    this.#making.add(text);
    try {
      await this.#commit({ puts: [this.#noteOf(thing, note)], deletes: [] });
    } catch (error) {
      this.#making.delete(text);
      throw error;
    }
    return this.#makingOf(thing, note);
  }

  /** The same for a content with a new id. Writes nothing if a spare is available. */
  async beginContent(): Promise<ContentMaking> {
    const taken = await this.#takeSpare();
    const id = taken?.id ?? this.#options.ids.next();
    const thing: NotedThing = { kind: "content", id };
    const making = taken ? this.#makingOf(thing, taken.note) : await this.begin(thing);
    const spare = { id: this.#options.ids.next(), note: this.#newKey(undefined) };
    const spareText = textOf(spare.note);
    // Before the note can be seen.
    this.#making.add(spareText);
    return {
      ...making,
      id,
      spare: this.#noteOf({ kind: "content", id: spare.id }, spare.note),
      settle: () => {
        making.settle();
        this.#spares.push({ ...spare, since: this.#options.engine.nextVersion() });
      },
      giveUp: () => {
        if (this.#making.has(textOf(making.note))) this.#making.delete(spareText);
        making.giveUp();
      },
      leaveInDoubt: () => {
        this.#making.delete(spareText);
        making.leaveInDoubt();
      },
    };
  }

  /** Takes a spare whose note still exists: a process that took this one for dead may have given it up. */
  async #takeSpare(): Promise<Spare | undefined> {
    for (let spare = this.#spares.pop(); spare !== undefined; spare = this.#spares.pop()) {
      let stands = false;
      try {
        stands = (await this.#options.engine.get([spare.note]))[0] !== undefined;
      } finally {
        if (!stands) this.#making.delete(textOf(spare.note));
      }
      if (stands) return spare;
    }
    return undefined;
  }

  /** Deletes the notes of spares older than this. Nothing was ever stored under them. */
  async dropSpares(micros: number): Promise<void> {
    const before = this.#options.engine.nextVersion() - micros;
    const old = this.#spares.filter(({ since }) => since < before);
    if (old.length === 0) return;
    this.#spares = this.#spares.filter(({ since }) => since >= before);
    // If the commit fails, the notes are left over and the collector finds them.
    for (const { note } of old) this.#making.delete(textOf(note));
    await this.#commit({ puts: [], deletes: old.map(({ note }) => note) });
  }

  #noteOf(thing: NotedThing, note: Key): Put {
    return { key: note, value: encode({ thing, maker: this.#self }) };
  }

  #makingOf(thing: NotedThing, note: Key): Making {
    const text = textOf(note);
    const check: Check = { key: note, expected: "present" };
    return {
      check,
      note,
      put: async (puts) => {
        const { engine } = this.#options;
        const version = engine.nextVersion();
        const { committed } = await engine.commit({ version, checks: [check], puts, deletes: [] });
        if (!committed) throw givenUp();
      },
      settle: () => this.#making.delete(text),
      giveUp: () => {
        if (this.#making.delete(text)) void this.#giveUp(thing, note);
      },
      leaveInDoubt: () => {
        if (this.#making.delete(text)) this.#options.onLeftOver();
      },
    };
  }

  /**
   * Makes the thing garbage, under a new note: the first note may be gone, taken by a collector before the
   * thing was stored. If this commit fails, the first note still leads to the thing.
   */
  async #giveUp(thing: NotedThing, note: Key): Promise<void> {
    try {
      await this.#commit({ puts: [this.garbage(thing)], deletes: [note] });
    } catch (error) {
      this.#options.onError(error);
    }
    this.#options.onLeftOver();
  }

  async #commit(write: Pick<AtomicWrite, "puts" | "deletes">): Promise<void> {
    const { engine } = this.#options;
    await engine.commit({ version: engine.nextVersion(), checks: [], ...write });
  }

  /** To be put by the commit that releases something. */
  garbage(thing: NotedThing, successor?: string): Put {
    return {
      key: this.#newKey(successor),
      value: encode(successor === undefined ? { thing } : { thing, successor }),
    };
  }

  /** Whether a note's thing can be freed: it is garbage, or its maker has given it up or is gone. */
  isLeftOver(note: StoredNote): boolean {
    const { maker } = note;
    if (maker === undefined) return true;
    if (maker.run === this.#self.run) return !this.#making.has(textOf(note.key));
    return !isAlive(maker) || this.#options.engine.nextVersion() - note.version > MAKING_MICROS_MAX;
  }

  /** The range of all notes. */
  range(): KeyRange {
    return partitionRange(PARTITION);
  }

  /** The notes of holds. */
  holds(): KeyRange {
    return this.succeededBy(HOLDS);
  }

  /** The notes of things whose contents a list took over. */
  succeededBy(list: string): KeyRange {
    return sortPrefixRange(PARTITION, Buffer.from(`${list}/`, "latin1"));
  }

  #newKey(successor: string | undefined): Key {
    const sort = Buffer.from(`${successor ?? NO_SUCCESSOR}/${this.#options.ids.next()}`, "latin1");
    return { partition: PARTITION, sort };
  }
}

export function decodeNote(
  key: Key,
  { value, version }: Pick<Entry, "value" | "version">,
): StoredNote {
  return { ...(JSON.parse(toBuffer(value).toString("utf8")) as Note), key, version };
}

/** Another process has freed the thing in the making, or is about to. */
export function givenUp(): EngineError {
  return new EngineError("Unavailable", "Another process gave up this content.");
}

function encode(note: Note): Uint8Array {
  return Buffer.from(JSON.stringify(note), "utf8");
}

function textOf({ sort }: Key): string {
  return latin1(sort);
}

/** As far as this process can tell. If it is wrong, the check on the note still protects a live maker. */
function isAlive({ host, pid }: Maker): boolean {
  if (host !== hostname()) return true;
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}
