import { statSync } from "node:fs";
import { join } from "node:path";
import type { Awaitable } from "../../awaitable.ts";
import { takeBytes } from "../../byte-slab.ts";
import { type Clock, systemClock } from "../../clock.ts";
import {
  type AtomicWrite,
  type Change,
  type CommitResult,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type KeyRange,
  type OnDamaged,
  type Premise,
  type ScanEnd,
  type ScanHints,
  type Sealing,
  type Supports,
  type Updated,
  type Visit,
} from "../engine.ts";
import { assertKeyFits, assertWrite } from "../engine-rules.ts";
import { EVERYTHING, pairBytesMax } from "../key-codec.ts";
import { flushFolder, makeFolder } from "../make-folder.ts";
import { VersionClock } from "../version-clock.ts";
import {
  lastVersion,
  openStore,
  readerPids,
  type Snapshot,
  Snapshots,
  type Store,
  type StoreOptions,
} from "./binding.ts";
import { CommitNumbers } from "./commit-numbers.ts";
import {
  assertCanBeMapped,
  assertCanBeOpened,
  DATA_FILE,
  FLAT_KEY_BYTES_MAX,
  freeBytes,
  freeListPages,
  unusedBytes,
} from "./data-file.ts";
import { DataFolder } from "./data-folder.ts";
import { EntryScan, type ScanSource } from "./entry-scan.ts";
import { EnvironmentCopy } from "./environment-copy.ts";
import { GroupCommit, type Refusal } from "./group-commit.ts";
import { toEngineError, toReadError } from "./lmdb-errors.ts";
import { fillReaderTable, MemoryMap } from "./memory-map.ts";
import { type MetaRecord, openMeta, readMeta } from "./meta-record.ts";
import { openSealed, type Seals } from "./sealed-value.ts";
import { VerifiedPages } from "./verified-pages.ts";

export interface LmdbEngineOptions {
  /**
   * The data folder; created if absent. Several processes may open the same one. One process must not open it
   * twice while it is written to: both engines would wait for LMDB's lock on the same thread.
   */
  readonly path: string;
  readonly clock?: Clock;
  /** Address space for the file, hence its maximum size; all processes should use the same value. */
  readonly mapSizeBytes?: number;
  /** How many scans may hold a snapshot at the same time, in all processes together. */
  readonly readersMax?: number;
  /** After this time a scan ends with `resumeAt`: LMDB cannot reuse pages that a snapshot shows. */
  readonly snapshotMsMax?: number;
  /** If false, scans go through the binding even where they could walk the memory map. */
  readonly walksMap?: boolean;
}

/** For metrics and for inspection. */
export interface LmdbStatistics {
  /** Write transactions, each with one flush. */
  readonly flushes: number;
  readonly commits: number;
  /** The most commits that shared a flush. */
  readonly groupCommitsMax: number;
  readonly scansOpen: number;
  /** Whether scans walk the memory map. */
  readonly walksMap: boolean;
  readonly fileBytes: number;
  /** Bytes inside the file that nothing refers to, though a snapshot may still show some of them. */
  readonly unusedBytes: number;
  /** Free on the disk of the file. */
  readonly diskFreeBytes: number;
  /** See `freeListPages` in `data-file.ts`. */
  readonly freeListPages: number;
}

/** A commit of other writers waits for it. */
const SEALED_TOGETHER = 200;

const KEY_BYTES_MAX = pairBytesMax(FLAT_KEY_BYTES_MAX);

export async function openLmdbEngine(options: LmdbEngineOptions): Promise<LmdbEngine> {
  try {
    return new LmdbEngine(options);
  } catch (error) {
    throw toEngineError(error, "Unavailable", `open ${options.path}`);
  }
}

/**
 * The embedded engine: one LMDB environment in a folder, with all entries in its one tree of flat keys.
 *
 * Reads run on this thread, on the memory map, and return immediately; they never wait for a commit. Commits
 * gather in groups and are flushed on another thread. `docs/internals/storage-format.md` draws the bytes on disk.
 */
export class LmdbEngine implements Engine {
  readonly name = "lmdb";
  readonly keyBytesMax = KEY_BYTES_MAX;
  readonly supports: Supports = {
    update: true,
    scanRanges: false,
    sharing: true,
    sealing: true,
    freePremises: true,
  };
  readonly path: string;
  readonly #storeOptions: StoreOptions;
  readonly #store: Store;
  readonly #reader: Snapshot;
  readonly #scanSource: ScanSource;
  /** Undefined if scans go through the binding. */
  readonly #map: MemoryMap | undefined;
  readonly #numbers: CommitNumbers;
  readonly #seals: Seals;
  readonly #versions: VersionClock;
  readonly #folder: DataFolder;
  readonly #commits: GroupCommit;
  /** Scans between two turns; each holds a snapshot. */
  readonly #suspended = new Set<Promise<ScanEnd>>();
  /** The scan whose visitor is running. */
  #visiting: EntryScan | undefined;
  #closing: Promise<void> | undefined;

  /** @throws EngineError or an error of lmdb-js: use `openLmdbEngine`. */
  constructor(options: LmdbEngineOptions) {
    this.path = options.path;
    makeFolder(options.path);
    assertCanBeOpened(options.path);
    const mapSizeBytes = options.mapSizeBytes ?? 2 ** 40;
    assertCanBeMapped(options.path, mapSizeBytes);
    this.#storeOptions = {
      path: options.path,
      mapSizeBytes,
      readersMax: options.readersMax ?? 1024,
    };
    this.#store = openStore(this.#storeOptions);
    // A file survives a loss of power only once its folder is on disk too, and the process that created it
    // may have been killed before it flushed the folder.
    flushFolder(options.path);
    this.#numbers = new CommitNumbers(this.#store, options.path);
    const { versionsReserved, lacksChecksums } = openMeta(this.#store, this.#numbers);
    this.#seals = { areMissing: lacksChecksums };
    const clock = options.clock ?? systemClock;
    this.#versions = new VersionClock(clock);
    this.#versions.raiseAbove(versionsReserved);
    this.#folder = new DataFolder(options.path, clock, this.#store);
    // On a disk that is already full it would raise the very signal that it is there to prevent.
    if (this.#folder.noSpaceLeft() === undefined) fillReaderTable(options.path);
    this.#commits = new GroupCommit(this.#store, this.#folder, this.#versions, {
      versionsReserved,
      seals: this.#seals,
      numbers: this.#numbers,
    });
    const snapshots = new Snapshots(this.#store);
    this.#reader = snapshots.take();
    const snapshotMsMax = options.snapshotMsMax ?? 2000;
    const map = options.walksMap === false ? undefined : MemoryMap.of(options.path, this.#numbers);
    this.#map = map;
    const walk = map && { map, seals: this.#seals, verified: new VerifiedPages() };
    const seals = this.#seals;
    this.#scanSource = { store: this.#store, seals, snapshots, snapshotMsMax, walk, walks: [] };
  }

  nextVersion(): number {
    return this.#versions.next();
  }

  takeSlot(slot: number): void {
    this.#versions.takeSlot(slot);
  }

  isShared(): boolean {
    this.#assertOpen();
    return readerPids(this.#store).some((pid) => pid !== process.pid);
  }

  newestCommit(): number | undefined {
    this.#assertOpen();
    return this.#map && this.#numbers.newest();
  }

  get(keys: readonly Key[], bytesMax = Number.POSITIVE_INFINITY): (Entry | undefined)[] {
    this.#assertOpen();
    for (const key of keys) assertKeyFits(key, KEY_BYTES_MAX);
    const get = () => this.#getEntries(keys, bytesMax);
    return this.#visiting ? this.#visiting.lendAgainAfter(get) : get();
  }

  scan(range: KeyRange, visit: Visit, hints?: ScanHints): Awaitable<ScanEnd> {
    this.#assertOpen();
    const begin = () => this.#beginScan(this.#scanSource, range, visit, hints?.onDamaged);
    return this.#visiting ? this.#visiting.lendAgainAfter(begin) : begin();
  }

  commit(write: AtomicWrite): Promise<CommitResult> {
    try {
      this.#assertOpen();
      assertWrite(write);
      // After a key that is too long, lmdb-js may crash the process when it closes.
      for (const { key } of write.checks) assertKeyFits(key, KEY_BYTES_MAX);
      for (const { key } of write.puts) assertKeyFits(key, KEY_BYTES_MAX);
      for (const key of write.deletes) assertKeyFits(key, KEY_BYTES_MAX);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#commits.commit(write);
  }

  async update(key: Key, change: Change, premise?: Premise): Promise<Updated | undefined> {
    this.#assertOpen();
    assertKeyFits(key, KEY_BYTES_MAX);
    return this.#commits.update(key, this.#versions.next(), change, premise);
  }

  /** Whether values may lack their checksum: the data was begun in storage format 1, and not all is sealed. */
  get lacksChecksums(): boolean {
    return this.#seals.areMissing;
  }

  readonly sealing: Sealing = {
    isDue: () => this.#seals.areMissing,
    seal: async (keys) => {
      this.#assertOpen();
      for (let from = 0; from < keys.length; from += SEALED_TOGETHER) {
        await this.#commits.seal(keys.slice(from, from + SEALED_TOGETHER));
      }
    },
    end: async () => {
      this.#assertOpen();
      await this.#commits.endSealing();
      this.#seals.areMissing = false;
    },
  };

  /**
   * Writes one snapshot into a folder that has no environment yet; it is on disk when the promise resolves.
   * Holds the snapshot until then, and LMDB cannot reuse the pages that it shows.
   *
   * Every value is checked, and written with its checksum.
   *
   * @param onCopied called with each entry. @param onDamaged called with what is damaged, which is left out.
   * @throws EngineError
   */
  async copyTo(
    path: string,
    { onCopied, onDamaged }: { onCopied: (entry: Entry) => void; onDamaged: OnDamaged },
  ): Promise<void> {
    this.#assertOpen();
    const copy = new EnvironmentCopy({ ...this.#storeOptions, path });
    try {
      const source = { ...this.#scanSource, snapshotMsMax: Number.POSITIVE_INFINITY };
      const visit = (entry: Entry) => {
        copy.put(entry);
        onCopied(entry);
        return true;
      };
      await this.#beginScan(source, EVERYTHING, visit, onDamaged);
      // A record with versions reserved since the snapshot does no harm.
      copy.end({ ...this.meta(), lacksChecksums: false });
    } finally {
      await copy.close();
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Only what costs nothing to know. */
  get flushCounts(): Pick<LmdbStatistics, "flushes" | "commits"> {
    const { groups, commits } = this.#commits.counts;
    return { flushes: groups, commits };
  }

  statistics(): LmdbStatistics {
    const { groups, commits, groupCommitsMax } = this.#commits.counts;
    return {
      flushes: groups,
      commits,
      groupCommitsMax,
      scansOpen: this.#suspended.size,
      walksMap: this.#map !== undefined,
      fileBytes: statSync(join(this.path, DATA_FILE)).size,
      unusedBytes: unusedBytes(this.path),
      diskFreeBytes: freeBytes(this.path),
      freeListPages: freeListPages(this.path),
    };
  }

  /** Why commits are refused, as far as is known. Reads still work, unless LMDB lets no transaction begin. */
  refusal(): Refusal | undefined {
    return this.#commits.refusal();
  }

  /** The engine's own record in front of all entries, which no scan shows. */
  meta(): MetaRecord {
    this.#assertOpen();
    const meta = this.#readOnce(() => readMeta(this.#store, this.#reader));
    if (meta === undefined)
      throw new EngineError("Corrupt", "The record of the storage format is missing.");
    return meta;
  }

  #getEntries(keys: readonly Key[], bytesMax: number): (Entry | undefined)[] {
    return this.#readOnce(() => {
      const entries: (Entry | undefined)[] = [];
      let bytes = 0;
      for (const key of keys) {
        const entry = this.#getEntry(key);
        entries.push(entry);
        bytes += entry === undefined ? 0 : entry.value.length;
        if (bytes >= bytesMax) break;
      }
      return entries;
    });
  }

  /**
   * Reads in one snapshot, which the first read begins, and releases it: LMDB cannot reuse pages that it shows.
   */
  #readOnce<T>(read: () => T): T {
    try {
      for (;;) {
        const found = read();
        if (!this.#numbers.hasFallen()) return found;
        this.#numbers.raise();
        this.#reader.reset();
      }
    } catch (error) {
      throw toReadError(error, "get");
    } finally {
      this.#reader.reset();
    }
  }

  #getEntry(key: Key): Entry | undefined {
    const shared = this.#store.getBinaryFast(key, this.#reader);
    if (shared === undefined) return undefined;
    const stored = lastVersion();
    const lent = openSealed(key, shared, stored, this.#seals);
    const version = Math.abs(stored);
    // A commit that checks what was read here gets a larger version, whatever this process's clock says.
    this.#versions.raiseAbove(version);
    const value = takeBytes(lent.length);
    value.set(lent);
    return { key, value, version };
  }

  #beginScan(
    source: ScanSource,
    range: KeyRange,
    visit: Visit,
    onDamaged: OnDamaged | undefined,
  ): Awaitable<ScanEnd> {
    const scan = new EntryScan(source, range, visit, onDamaged);
    const end = this.#runTurn(scan);
    if (end !== undefined) return end;
    const rest = this.#runTurns(scan).finally(() => this.#suspended.delete(rest));
    this.#suspended.add(rest);
    return rest;
  }

  /** Releases the scan unless another turn must follow. */
  #runTurn(scan: EntryScan): ScanEnd | undefined {
    const outer = this.#visiting;
    this.#visiting = scan;
    let end: ScanEnd | undefined = "stopped";
    try {
      end = scan.runTurn();
      return end;
    } finally {
      this.#visiting = outer;
      if (end !== undefined) scan.release();
    }
  }

  async #runTurns(scan: EntryScan): Promise<ScanEnd> {
    for (;;) {
      await scan.nextTurn();
      if (this.#closing) {
        scan.release();
        throw closed();
      }
      const end = this.#runTurn(scan);
      if (end !== undefined) return end;
    }
  }

  async #close(): Promise<void> {
    // LMDB must not be closed under a transaction: scans release theirs at their next turn.
    await Promise.allSettled(this.#suspended);
    await this.#commits.whenIdle();
    await this.#store.close();
  }

  #assertOpen(): void {
    if (this.#closing) throw closed();
  }
}

function closed(): EngineError {
  return new EngineError("Closed", "The LMDB engine is closed.");
}
