import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
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
import { prefixEnd } from "../engine/key-codec.ts";

/*
 * Blob records refer to things stored outside of them: contents, lists of extents, drafts. Notes see
 * to it that none of these is left over, whatever crashes when, without ever looking at all of them:
 *
 *   in the making   noted before the first byte of it is stored; the commit by which a record refers
 *                   to it checks that the note still stands, and deletes it
 *   garbage         noted by the very commit by which the last record lets go of it
 *
 * `collector.ts` frees garbage, and what is in the making of a process that is no more.
 */

/** A thing that notes are about. */
export type Thing =
  /** A content in the content store. Rows are freed by the commit that lets go of them. */
  | { readonly kind: "content"; readonly id: ContentId }
  /** A list of extents; `alone` when it goes without the contents it refers to. */
  | { readonly kind: "list"; readonly id: string; readonly alone?: true }
  | { readonly kind: "draft"; readonly id: string };

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
}

/** No upload takes longer; what another process has been making for longer is left over. */
const MAKING_MICROS_MAX = 24 * 3600 * 1e6;
const PARTITION = Uint8Array.of(KEY_SPACES.blobNotes);
const NO_SUCCESSOR = "-";

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

  constructor(options: NotesOptions) {
    this.#options = options;
  }

  /** Notes, durably, that something is in the making. */
  async begin(thing: Thing): Promise<Making> {
    const note = this.#newKey(undefined);
    const text = textOf(note);
    this.#making.add(text);
    const put = { key: note, value: encode({ thing, maker: this.#self }) };
    try {
      await this.#commit({ puts: [put], deletes: [] });
    } catch (error) {
      this.#making.delete(text);
      throw error;
    }
    const check: Check = { key: note, expected: "present" };
    return {
      check,
      note,
      put: async (puts) => {
        const { engine } = this.#options;
        const version = engine.nextVersion();
        const { committed } = await engine.commit({ version, checks: [check], puts, deletes: [] });
        if (!committed) throw new EngineError("Unavailable", "Given up by another process.");
      },
      settle: () => this.#making.delete(text),
      giveUp: () => {
        if (this.#making.delete(text)) void this.#giveUp(thing, note);
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
    return { start: { partition: PARTITION, sort: new Uint8Array(0) }, end: NOTES_END };
  }

  /** Notes of what a list took contents over from. */
  succeededBy(list: string): KeyRange {
    const prefix = Buffer.from(`${list}/`, "latin1");
    return {
      start: { partition: PARTITION, sort: prefix },
      end: { partition: PARTITION, sort: prefixEnd(prefix)! },
    };
  }

  #newKey(successor: string | undefined): Key {
    const sort = Buffer.from(`${successor ?? NO_SUCCESSOR}/${this.#options.ids.next()}`, "latin1");
    return { partition: PARTITION, sort };
  }
}

const NOTES_END: Key = { partition: prefixEnd(PARTITION)!, sort: new Uint8Array(0) };

export function decodeNote(
  key: Key,
  { value, version }: Pick<Entry, "value" | "version">,
): StoredNote {
  const json = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("utf8");
  return { ...(JSON.parse(json) as Note), key, version };
}

function encode(note: Note): Uint8Array {
  return Buffer.from(JSON.stringify(note), "utf8");
}

function textOf({ sort }: Key): string {
  return Buffer.from(sort.buffer, sort.byteOffset, sort.byteLength).toString("latin1");
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
