import { COMMIT_KEYS_MAX, EngineError, type Entry } from "../engine.ts";
import { copyKey } from "../key-codec.ts";
import { makeFolder } from "../make-folder.ts";
import { openStore, type Store, type StoreOptions } from "./binding.ts";
import { CommitNumbers } from "./commit-numbers.ts";
import { assertCanBeMapped, assertCanBeOpened, freeBytes, PAGE_BYTES } from "./data-file.ts";
import { toEngineError } from "./lmdb-errors.ts";
import { fillReaderTable } from "./memory-map.ts";
import { type MetaRecord, openMeta, writeMeta } from "./meta-record.ts";
import { putSealed } from "./sealed-value.ts";

/** Bytes written in one transaction, which LMDB holds in memory and the caller waits for. */
const GROUP_BYTES = 4 << 20;
/** The overhead of an entry: less than this on its page, about this much in the memory of this process. */
const ENTRY_BYTES = 200;
/** Every page is at least half full. */
const PAGES_TIMES = 2;
/** The branches above the leaves. */
const COMMIT_BYTES = 32 * PAGE_BYTES;

/**
 * A new environment built from entries in ascending order of their keys. Each is put behind the last one, so
 * pages are full, however scattered the entries were written in the source.
 */
export class EnvironmentCopy {
  readonly #path: string;
  readonly #store: Store;
  #group: Entry[] = [];
  #groupBytes = 0;

  /** @param options of a folder that contains no environment. @throws EngineError */
  constructor(options: StoreOptions) {
    const { path } = options;
    this.#path = path;
    this.#store = this.#attempt(() => {
      makeFolder(path);
      assertCanBeOpened(path);
      assertCanBeMapped(path, options.mapSizeBytes);
      const store = openStore(options);
      fillReaderTable(path);
      // Its record precedes all entries.
      openMeta(store, new CommitNumbers(store, path));
      return store;
    });
  }

  /** Copies a lent entry. @throws EngineError */
  put({ key, value, version }: Entry): void {
    this.#group.push({ key: copyKey(key), value: Buffer.from(value), version });
    this.#groupBytes += ENTRY_BYTES + key.partition.length + key.sort.length + value.length;
    if (this.#groupBytes >= GROUP_BYTES || this.#group.length === COMMIT_KEYS_MAX) this.#flush();
  }

  /** Call it when every entry was put. Everything is on disk when it returns. @throws EngineError */
  end(meta: MetaRecord): void {
    this.#flush();
    this.#attempt(() => this.#store.transactionSync(() => writeMeta(this.#store, meta)));
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #flush(): void {
    const group = this.#group;
    this.#assertRoom();
    this.#group = [];
    this.#groupBytes = 0;
    this.#attempt(() =>
      this.#store.transactionSync(() => {
        for (const { key, value, version } of group) {
          if (!putSealed(this.#store, key, value, version, "last")) {
            throw new Error("The entries to copy are not in key order.");
          }
        }
      }),
    );
  }

  /** LMDB reports a full disk as an input/output error, which lmdb-js may not survive: see `GroupCommit`. */
  #assertRoom(): void {
    if (freeBytes(this.#path) >= this.#groupBytes * PAGES_TIMES + COMMIT_BYTES) return;
    throw new EngineError("Unavailable", `no space left on ${this.#path}`);
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw toEngineError(error, "Unavailable", `write ${this.#path}`);
    }
  }
}
