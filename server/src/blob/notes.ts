import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { latin1, toBuffer } from "../byte-views.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { ContentIds } from "../content/content-ids.ts";
import type { ContentId } from "../content/content-store.ts";
import {
  type AtomicWrite,
  type Check,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type KeyRange,
  type Put,
} from "../engine/engine.ts";
import { partitionRange, sortPrefixRange } from "../engine/key-codec.ts";

/*
 * Blob records refer to things stored outside of them: contents, lists of extents, drafts. Notes see
 * to it that none of these is left over, whatever crashes when, without ever looking at all of them:
 *
 *   in the making   noted before the first byte of it is stored; the commit by which a record refers
 *                   to it checks that the note still stands, and deletes it
 *   garbage         noted by the very commit by which the last record lets go of it
 *   spare           in the making of a process that has not begun: the commit that ends one content
 *                   notes the next one, so that an upload behind another waits for no note of its own
 *   hold            of a process that copies everything, as it was at one moment: until its end
 *                   nothing is freed that was there then
 *
 * `collector.ts` frees garbage, and what is in the making of a process that is no more. Of a spare it
 * finds nothing, or what an upload that took it had stored. Those that nobody takes are deleted.
 */

/** A thing that notes are about. */
export type Thing =
  /** A content in the content store. Rows are freed by the commit that lets go of them. */
  | { readonly kind: "content"; readonly id: ContentId }
  /** A list of extents; `alone` when it goes without the contents it refers to. */
  | { readonly kind: "list"; readonly id: string; readonly alone?: true }
  | { readonly kind: "draft"; readonly id: string }
  /** None: while its maker lives, nothing is freed. */
  | { readonly kind: "hold"; readonly id: string };

export interface Note {
  readonly thing: Thing;
  /** The list that took over some of its contents, which therefore stay. */
  readonly successor?: string;
  /** Who is making it; absent for garbage. */
  readonly maker?: Maker;
}

interface Maker {
  readonly host: string;
  readonly pid: number;
  /** Tells this process from others that had its number. */
  readonly run: string;
}

/** What a note is stored as. */
export interface StoredNote extends Note {
  readonly key: Key;
  readonly version: number;
}

/** A thing in the making, until a commit settles it or it is given up. */
export interface Making {
  /** Fails once somebody else has given it up. */
  readonly check: Check;
  /** To be deleted by the commit that refers to the thing. */
  readonly note: Key;
  /**
   * Stores a part of the thing, under the check: it must not come after somebody has freed it.
   * @throws EngineError `Unavailable` when somebody has given the thing up.
   */
  put(puts: readonly Put[]): Promise<void>;
  /** That commit is done. */
  settle(): void;
  /** That commit will not come, unless it is done already. What is there of the thing is garbage. */
  giveUp(): void;
  /**
   * Nobody knows whether that commit is done, or still on its way. The note does: it stands as long as
   * the commit is not done, and once the collector has taken it, the commit fails.
   */
  leaveInDoubt(): void;
}

/** A content in the making. */
export interface ContentMaking extends Making {
  readonly id: ContentId;
  /** To be put by the commit that refers to it: the note of the next one. */
  readonly spare: Put;
}

/** The note of a content that is not begun, and since when it stands. */
interface Spare {
  readonly id: ContentId;
  readonly note: Key;
  /** Microseconds since 1970, as versions are. */
  readonly since: number;
}

/** No upload takes longer; what another process has been making for longer is left over. */
const MAKING_MICROS_MAX = 24 * 3600 * 1e6;
/** A spare that was not taken for so long is for nobody. */
export const SPARE_MICROS_MAX = 60 * 1e6;
const PARTITION = Uint8Array.of(KEY_SPACES.blobNotes);
const NO_SUCCESSOR = "-";
/** What stands in its place in the keys of holds. */
const HOLDS = "+";

export interface NotesOptions {
  readonly engine: Engine;
  readonly ids: ContentIds;
  /** Called when something may have been left to free. */
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
  /** Keys of the notes of what this process is making. */
  readonly #making = new Set<string>();
  /** Those that are noted, durably. */
  #spares: Spare[] = [];

  constructor(options: NotesOptions) {
    this.#options = options;
  }

  /** Keeps everything that is there, for a day at most. Whoever lets go deletes the note, under its check. */
  hold(): Promise<Making> {
    return this.#begin({ kind: "hold", id: this.#options.ids.next() }, this.#newKey(HOLDS));
  }

  /** Notes, durably, that something is in the making. */
  begin(thing: Thing): Promise<Making> {
    return this.#begin(thing, this.#newKey(undefined));
  }

  async #begin(thing: Thing, note: Key): Promise<Making> {
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

  /** The same for a content with an id of its own: at once, where a spare is there. */
  async beginContent(): Promise<ContentMaking> {
    const taken = await this.#takeSpare();
    const id = taken?.id ?? this.#options.ids.next();
    const thing: Thing = { kind: "content", id };
    const making = taken ? this.#makingOf(thing, taken.note) : await this.begin(thing);
    const spare = { id: this.#options.ids.next(), note: this.#newKey(undefined) };
    const spareText = textOf(spare.note);
    // Before it can be seen.
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

  /** One that still stands: a process that thinks this one dead may have given it up. */
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

  /** Deletes the notes of spares that stand for longer than this. Nothing was ever stored under them. */
  async dropSpares(micros: number): Promise<void> {
    const before = this.#options.engine.nextVersion() - micros;
    const old = this.#spares.filter(({ since }) => since < before);
    if (old.length === 0) return;
    this.#spares = this.#spares.filter(({ since }) => since >= before);
    // Should this fail, they are left over, and found by the collector.
    for (const { note } of old) this.#making.delete(textOf(note));
    await this.#commit({ puts: [], deletes: old.map(({ note }) => note) });
  }

  #noteOf(thing: Thing, note: Key): Put {
    return { key: note, value: encode({ thing, maker: this.#self }) };
  }

  #makingOf(thing: Thing, note: Key): Making {
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
   * Makes the thing garbage, under a note of its own: the first may be gone, with a collector that
   * came by before the thing was there. If that fails, the first note is what the thing is found by.
   */
  async #giveUp(thing: Thing, note: Key): Promise<void> {
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

  /** To be put with the commit that lets go of something. */
  garbage(thing: Thing, successor?: string): Put {
    return {
      key: this.#newKey(successor),
      value: encode(successor === undefined ? { thing } : { thing, successor }),
    };
  }

  /** Whether what a note is about can be freed: garbage, or given up by its maker. */
  isLeftOver(note: StoredNote): boolean {
    const { maker } = note;
    if (maker === undefined) return true;
    if (maker.run === this.#self.run) return !this.#making.has(textOf(note.key));
    return !isAlive(maker) || this.#options.engine.nextVersion() - note.version > MAKING_MICROS_MAX;
  }

  /** All notes. */
  range(): KeyRange {
    return partitionRange(PARTITION);
  }

  /** Notes of those that keep everything. */
  holds(): KeyRange {
    return this.succeededBy(HOLDS);
  }

  /** Notes of what a list took contents over from. */
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

/** Somebody else has freed what was in the making, or is about to. */
export function givenUp(): EngineError {
  return new EngineError("Unavailable", "Given up by another process.");
}

function encode(note: Note): Uint8Array {
  return Buffer.from(JSON.stringify(note), "utf8");
}

function textOf({ sort }: Key): string {
  return latin1(sort);
}

/** As far as this process can tell; a fence keeps the maker from harm when it is wrong. */
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
