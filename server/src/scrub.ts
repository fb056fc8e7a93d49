import { randomUUID } from "node:crypto";
import { BackgroundLoop, type BackgroundWork } from "./catalog/background-loop.ts";
import { KEY_SPACES } from "./catalog/key-spaces.ts";
import type { Clock } from "./clock.ts";
import type { FileContentStore } from "./content/file-content-store.ts";
import type { Engine, EngineError, Key } from "./engine/engine.ts";
import { copyKey, EVERYTHING } from "./engine/key-codec.ts";
import { type Checked, checkContent, checkEntries } from "./verify.ts";

export interface ScrubOptions {
  readonly engine: Engine;
  /** Opens the contents; resolves to undefined if there are none, or they are rows of the engine. */
  readonly contentStore: () => Promise<FileContentStore | undefined>;
  readonly clock: Clock;
  /** Called with everything that is damaged, and with failures, after which a later run goes on. */
  readonly onError: (error: unknown) => void;
  /** Bytes read per second. */
  readonly rate?: number;
  /** How long after the last scrub the next one begins. */
  readonly everyMs?: number;
  /** A short-lived process does not begin one. */
  readonly notBeforeMs?: number;
  /** For tests: waits as long, or until it is cancelled. */
  readonly wait?: (milliseconds: number, cancelled: Promise<void>) => Promise<void>;
}

/** What was checked last, by any process. */
export interface ScrubReport {
  /** When the last complete scrub ended, in milliseconds since 1970; undefined if there was none. */
  readonly endedAt: number | undefined;
  /** What it found damaged, and what the one under way has found if that is more. */
  readonly damaged: number;
  /** What the one under way has read, or the last one. */
  readonly bytes: number;
}

/** Stored, so that a scrub goes on where it was: after a restart, or in another process. */
interface State {
  /** Undefined once the scrub has ended. */
  readonly position: readonly [partition: string, sort: string] | undefined;
  readonly endedAt: number | undefined;
  readonly damagedBefore: number;
  readonly damaged: number;
  readonly bytes: number;
  /** The process at work, and until when no other goes on in its place. */
  readonly by: string;
  readonly heldUntil: number;
}

const STATE: Key = { partition: Uint8Array.of(KEY_SPACES.processes), sort: Uint8Array.of(0x02) };

const WEEK_MS = 7 * 86_400_000;
const LOOK_EVERY_MS = 600_000;
/** 10 TB a week; on a disk that reads 500 MB/s it takes a thirtieth of its time. */
const RATE = 16 << 20;
const SLICE_BYTES = 1 << 20;
const HOLD_MS = 60_000;

/**
 * Reads and checks everything that is stored, once a week at a bounded rate: what nobody reads would otherwise rot
 * unseen, until the backups that still have it are gone. Values without checksums get theirs. Of several processes over
 * the same data one works, and another goes on if that one ends.
 */
export class Scrub implements BackgroundWork {
  readonly #options: ScrubOptions;
  readonly #loop: BackgroundLoop;
  readonly #id = randomUUID();
  readonly #openedAt: number;
  readonly #cancelled: Promise<void>;
  #cancel = () => {};
  #report: ScrubReport = { endedAt: undefined, damaged: 0, bytes: 0 };

  constructor(options: ScrubOptions) {
    this.#options = options;
    this.#openedAt = options.clock.now();
    this.#cancelled = new Promise((resolve) => {
      this.#cancel = resolve;
    });
    this.#loop = new BackgroundLoop({
      run: () => this.run(),
      periodMs: LOOK_EVERY_MS,
      onError: options.onError,
    });
  }

  start(): void {
    this.#loop.start();
  }

  report(): ScrubReport {
    return this.#report;
  }

  close(): Promise<void> {
    this.#cancel();
    return this.#loop.close();
  }

  /** Goes on with a scrub, or begins one, if that is due; ends when it has ended, or when it is to close. */
  async run(): Promise<void> {
    const { clock, everyMs = WEEK_MS, notBeforeMs = LOOK_EVERY_MS } = this.#options;
    const stored = await this.#read();
    if (stored) this.#show(stored.state);
    const now = clock.now();
    if (Math.abs(now - this.#openedAt) < notBeforeMs) return;
    if (stored && stored.state.by !== this.#id && now < stored.state.heldUntil) return;
    const previous = stored?.state;
    const isUnderWay = previous?.position !== undefined;
    const isDue = !previous?.endedAt || Math.abs(now - previous.endedAt) >= everyMs;
    if (!isUnderWay && !isDue) return;
    const first: State = isUnderWay
      ? previous
      : {
          position: ["", ""],
          endedAt: previous?.endedAt,
          damagedBefore: previous?.damaged ?? 0,
          damaged: 0,
          bytes: 0,
          by: this.#id,
          heldUntil: now,
        };
    await this.#work(first, stored?.version);
  }

  async #work(first: State, storedVersion: number | undefined): Promise<void> {
    const { engine, clock, onError } = this.#options;
    let state = first;
    let version = storedVersion;
    const seen = new Set<string>();
    const onDamaged = (error: EngineError) => {
      const what = error.key ? hex(error.key).join("/") : error.message;
      if (seen.has(what)) return;
      seen.add(what);
      state = { ...state, damaged: state.damaged + 1 };
      onError(error);
    };
    const save = async (): Promise<boolean> => {
      state = { ...state, by: this.#id, heldUntil: clock.now() + HOLD_MS };
      const result = await this.#write(state, version);
      this.#show(state);
      if (result !== undefined) version = result;
      return result !== undefined;
    };
    if (!(await save())) return;
    let savedAt = clock.now();
    const checked: Checked = { entries: 0, entryBytes: 0, contents: 0, contentsUnchecked: 0 };
    const sealing = engine.supports.sealing ? engine.sealing : undefined;
    const isSealing = sealing?.isDue() ?? false;
    let start: Key | undefined = keyOf(first.position ?? ["", ""]);
    while (start !== undefined) {
      if (this.#loop.closed) return;
      const before = checked.entryBytes;
      const unsealed: Key[] = [];
      const onEntry = isSealing ? (key: Key) => void unsealed.push(copyKey(key)) : undefined;
      start = await checkEntries(
        engine,
        { start, bytesMax: SLICE_BYTES, onDamaged, ...(onEntry && { onEntry }) },
        checked,
      );
      if (unsealed.length > 0) await sealing?.seal(unsealed);
      const bytes = checked.entryBytes - before;
      state = { ...state, bytes: state.bytes + bytes, position: hex(start ?? EVERYTHING.start) };
      if (start !== undefined) await this.#pause(bytes);
      if (clock.now() - savedAt < HOLD_MS / 2) continue;
      if (start !== undefined && !(await save())) return;
      savedAt = clock.now();
    }
    if (isSealing) await sealing?.end();
    const contentStore = await this.#options.contentStore();
    if (contentStore) {
      for await (const id of contentStore.list()) {
        if (this.#loop.closed) return;
        const error = await checkContent(contentStore, id, checked);
        if (error) onDamaged(error);
        // Its size is not known here; most are a few MiB.
        await this.#pause(SLICE_BYTES);
        if (clock.now() - savedAt < HOLD_MS / 2) continue;
        if (!(await save())) return;
        savedAt = clock.now();
      }
    }
    state = { ...state, position: undefined, endedAt: clock.now(), damagedBefore: state.damaged };
    await save();
  }

  #pause(bytes: number): Promise<void> {
    const { rate = RATE, wait = waitFor } = this.#options;
    return wait((bytes / rate) * 1000, this.#cancelled);
  }

  #show({ endedAt, damaged, damagedBefore, bytes }: State): void {
    this.#report = { endedAt, damaged: Math.max(damaged, damagedBefore), bytes };
  }

  async #read(): Promise<{ readonly state: State; readonly version: number } | undefined> {
    const [entry] = await this.#options.engine.get([STATE]);
    if (entry === undefined) return undefined;
    const state = JSON.parse(Buffer.from(entry.value).toString("utf8")) as State;
    return { state, version: entry.version };
  }

  /** Returns the new version; undefined if another process has written meanwhile. */
  async #write(state: State, version: number | undefined): Promise<number | undefined> {
    const { engine } = this.#options;
    const result = await engine.commit({
      version: engine.nextVersion(),
      checks: [{ key: STATE, expected: version ?? "absent" }],
      puts: [{ key: STATE, value: Buffer.from(JSON.stringify(state)) }],
      deletes: [],
    });
    return result.committed ? result.versions[0] : undefined;
  }
}

function hex({ partition, sort }: Key): readonly [string, string] {
  return [Buffer.from(partition).toString("hex"), Buffer.from(sort).toString("hex")];
}

function keyOf([partition, sort]: readonly [string, string]): Key {
  return { partition: Buffer.from(partition, "hex"), sort: Buffer.from(sort, "hex") };
}

async function waitFor(milliseconds: number, cancelled: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
    timer.unref();
  });
  await Promise.race([passed, cancelled]);
  clearTimeout(timer);
}
