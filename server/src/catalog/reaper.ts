import { type Awaitable, handledLater } from "../awaitable.ts";
import { eachBounded } from "../each-bounded.ts";
import type { Engine, Entry, Key, KeyRange } from "../engine/engine.ts";
import { after, copyKey } from "../engine/key-codec.ts";
import { BackgroundLoop } from "./background-loop.ts";
import type { Catalog } from "./catalog.ts";

export interface ReaperOptions<Value> {
  readonly engine: Engine;
  readonly catalog: Catalog<Value>;
  /** Everything stored under a removed id. */
  readonly contentsOf: (accountId: number, id: number) => KeyRange;
  /** Called with each entry before it is freed, and awaited: whatever the entry refers to is freed first. */
  readonly release?: (key: Key, value: Uint8Array) => Awaitable<void>;
  readonly onError: (error: unknown) => void;
}

/** A write in flight when the name was removed may still be committed; until then the note stays. */
const GRACE_MICROS = 60 * 1_000_000;
const KEYS_PER_COMMIT = 500;
const PERIOD_MS = 30_000;

/**
 * Frees the contents of removed tables, queues and containers, in the background and in small commits. Works
 * from the notes that `Catalog.remove` leaves, so a crash loses no work: the next process continues. Several
 * processes may reap at once: a second delete does nothing.
 */
export class Reaper<Value> {
  readonly #options: ReaperOptions<Value>;
  readonly #loop: BackgroundLoop;

  constructor(options: ReaperOptions<Value>) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.reap(), periodMs: PERIOD_MS, onError });
  }

  /** Runs now, and then every half minute, until closed. */
  start(): void {
    this.#loop.start();
  }

  /** Call it when something was removed: it is freed soon. */
  wake(): void {
    this.#loop.wake();
  }

  /** Frees everything removed. An id that fails delays no other; the first failure is thrown at the end. */
  reap(): Promise<void> {
    return eachBounded(this.#options.catalog.accountNames, (account) => this.#reapAll(account), 1);
  }

  async #reapAll(account: string): Promise<void> {
    const removed = await this.#options.catalog.removed(account);
    await eachBounded(removed, ({ id, version }) => this.#reapOne(account, id, version), 1);
  }

  async #reapOne(account: string, id: number, removedAt: number): Promise<void> {
    if (this.#loop.closed) return;
    const { catalog, contentsOf, engine } = this.#options;
    await this.#free(contentsOf(catalog.accountId(account), id));
    if (this.#loop.closed) return;
    if (engine.nextVersion() - removedAt > GRACE_MICROS) await catalog.forgetRemoved(account, id);
  }

  /** Ends after the commit in flight. */
  close(): Promise<void> {
    return this.#loop.close();
  }

  async #free(range: KeyRange): Promise<void> {
    const { engine, release } = this.#options;
    let start = range.start;
    while (!this.#loop.closed) {
      const found: Found[] = [];
      const released: Promise<void>[] = [];
      const ended = await engine.scan(
        { start, end: range.end },
        ({ key, value, version }) => {
          const own = copyKey(key);
          const releasing = release?.(own, value);
          if (releasing instanceof Promise) released.push(handledLater(releasing));
          found.push({ key: own, version });
          return found.length < KEYS_PER_COMMIT;
        },
        { entriesExpected: KEYS_PER_COMMIT },
      );
      await Promise.all(released);
      // One commit per partition: on a distributed engine commits within a partition are cheap.
      const results = await Promise.all(
        byPartition(found).map((entries) =>
          engine.commit({
            version: engine.nextVersion(),
            // An entry written since refers to something else, which was not released.
            checks: release ? entries.map(({ key, version }) => ({ key, expected: version })) : [],
            puts: [],
            deletes: entries.map(({ key }) => key),
          }),
        ),
      );
      if (results.some(({ committed }) => !committed)) continue;
      if (ended === "complete") return;
      start = ended === "stopped" ? after(found[found.length - 1]!.key) : ended.resumeAt;
    }
  }
}

type Found = Pick<Entry, "key" | "version">;

function byPartition(found: readonly Found[]): Found[][] {
  const groups: Found[][] = [];
  for (const entry of found) {
    const last = groups[groups.length - 1];
    if (last && Buffer.compare(last[0]!.key.partition, entry.key.partition) === 0) last.push(entry);
    else groups.push([entry]);
  }
  return groups;
}
