import { EngineError, type Entry } from "../engine.ts";
import { copyKey } from "../key-codec.ts";
import { makeFolder } from "../make-folder.ts";
import { openStore, putLast, type Store, type StoreOptions } from "./binding.ts";
import { assertCanBeMapped, assertCanBeOpened, freeBytes, PAGE_BYTES } from "./data-file.ts";
import { toEngineError } from "./lmdb-errors.ts";
import { fillReaderTable } from "./memory-map.ts";
import { type MetaRecord, openMeta, writeMeta } from "./meta-record.ts";

/** So much is written in one transaction, which LMDB holds in memory, and the caller waits for. */
const GROUP_BYTES = 4 << 20;
/** What an entry takes beside its key and value: on its page less, in the memory of this process about as much. */
const ENTRY_BYTES = 200;
/** No page is less than half full. */
const PAGES_TIMES = 2;
/** Of the branches above them. */
const COMMIT_BYTES = 32 * PAGE_BYTES;

/**
 * A new environment made of entries in ascending order of their keys. Each is put behind the last one,
 * so its pages are full, however scattered they were written in the one they come from.
 */
export class EnvironmentCopy {
  readonly #path: string;
  readonly #store: Store;
  #group: Entry[] = [];
  #groupBytes = 0;

  /** @param options of a folder that holds no environment. @throws EngineError */
  constructor(options: StoreOptions) {
    const { path } = options;
    this.#path = path;
    this.#store = this.#attempt(() => {
      makeFolder(path);
      assertCanBeOpened(path);
      assertCanBeMapped(path, options.mapSizeBytes);
      const store = openStore(options);
      fillReaderTable(path);
      // Its record stands in front of all entries.
      openMeta(store);
      return store;
    });
  }

  /** Takes an entry that is lent. @throws EngineError */
  put({ key, value, version }: Entry): void {
    this.#group.push({ key: copyKey(key), value: Buffer.from(value), version });
    this.#groupBytes += ENTRY_BYTES + key.partition.length + key.sort.length + value.length;
    if (this.#groupBytes >= GROUP_BYTES) this.#flush();
  }

  /** Everything was put. It is on disk when this returns. @throws EngineError */
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
          if (!putLast(this.#store, key, value, version)) {
            throw new Error("An entry came out of order.");
          }
        }
      }),
    );
  }

  /** What the disk refuses LMDB calls an input/output error, and lmdb-js may not outlive it: see `GroupCommit`. */
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
