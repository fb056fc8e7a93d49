import {
  type AtomicWrite,
  type Change,
  type CommitResult,
  type Key,
  PREMISE_FAILED,
  type Premise,
  type Updated,
} from "../engine.ts";
import { holds } from "../engine-rules.ts";
import type { VersionClock } from "../version-clock.ts";
import { lastVersion, type Store, viewOf } from "./binding.ts";
import { openSealed, putSealed, type Seals } from "./sealed-value.ts";

/** The totals of the writes applied in a transaction so far. */
export interface Extent {
  keys: number;
  bytes: number;
  /** The newest version put; 0 if there is none. */
  newest: number;
  /** Whether anything was put or removed: otherwise LMDB leaves the number of the transaction to the next one. */
  hasWritten: boolean;
  /** Whether any of the writes put something without deleting or freeing anything. */
  onlyAdds: boolean;
}

/** The error thrown by the function given to an update. */
export interface Thrown {
  readonly thrown: unknown;
}

/** Applies commits and updates inside a write transaction; each sees the ones before it. */
export class WriteApplier {
  readonly #store: Store;
  readonly #versions: VersionClock;
  readonly #seals: Seals;
  #extent: Extent = { keys: 0, bytes: 0, newest: 0, hasWritten: false, onlyAdds: false };
  /** No entry holds a version above this one, so a put with a newer one need not read the entry it replaces. */
  #newest = 0;
  /** The last premise that was found to hold in this transaction, until a write may have changed that. */
  #held: Premise | undefined;
  #transaction = 0;
  /** The last transaction that may hold more than writes with `heldAt`. */
  #changedAt = 0;

  constructor(store: Store, versions: VersionClock, seals: Seals) {
    this.#store = store;
    this.#versions = versions;
    this.#seals = seals;
  }

  /** Of the transaction that was begun last. */
  get extent(): Readonly<Extent> {
    return this.#extent;
  }

  /** @param othersNewest upper bound of the versions that others wrote since our last transaction, if any did */
  begin(transaction: number, othersNewest: number | undefined): void {
    this.#extent = { keys: 0, bytes: 0, newest: 0, hasWritten: false, onlyAdds: false };
    this.#newest = Math.max(this.#newest, othersNewest ?? 0);
    this.#held = undefined;
    this.#transaction = transaction;
    if (othersNewest !== undefined) this.#changedAt = transaction - 1;
  }

  commit(write: AtomicWrite): CommitResult {
    if (!this.#holds(write.premise)) return { committed: false, failedCheck: PREMISE_FAILED };
    if (write.heldAt === undefined) this.#changedAt = this.#transaction;
    return isInsert(write) ? this.#insert(write) : this.#checkAndApply(write);
  }

  update(
    key: Key,
    version: number,
    change: Change,
    premise: Premise | undefined,
  ): Updated | Thrown | undefined {
    if (!this.#holds(premise)) return undefined;
    this.#changedAt = this.#transaction;
    const stored = this.#store.getBinaryFast(key);
    const storedVersion = stored === undefined ? 0 : lastVersion();
    const own = this.#above(Math.abs(storedVersion), version);
    let value: Uint8Array;
    try {
      value = change(stored && openSealed(key, stored, storedVersion, this.#seals), own);
    } catch (thrown) {
      return { thrown };
    }
    this.#put(key, value, own);
    this.#extent.onlyAdds = true;
    return { version: own, value };
  }

  /** Puts values that have no checksum again, with one, and with the versions they have. */
  seal(keys: readonly Key[]): void {
    for (const key of keys) {
      const shared = this.#store.getBinaryFast(key);
      if (shared === undefined) continue;
      const stored = lastVersion();
      // The value is copied before anything else is read.
      if (stored > 0) this.#put(key, viewOf(shared), stored);
    }
  }

  /** Writes to one table share its premise object, so that it is looked up once in a transaction. */
  #holds(premise: Premise | undefined): boolean {
    if (premise === undefined) {
      this.#held = undefined;
      return true;
    }
    if (premise === this.#held) return true;
    if (this.#storedVersion(premise.key) !== premise.version) return false;
    this.#held = premise;
    return true;
  }

  /** Puts new keys without reading them first. If a key exists, the puts before it are removed again. */
  #insert({ version, puts }: AtomicWrite): CommitResult {
    const versions: number[] = [];
    for (let index = 0; index < puts.length; index++) {
      const { key, value } = puts[index]!;
      if (!putSealed(this.#store, key, value, version, "new")) {
        while (--index >= 0) this.#store.remove(puts[index]!.key);
        return { committed: false, failedCheck: versions.length };
      }
      this.#count(value, version);
      versions.push(version);
    }
    this.#extent.onlyAdds = true;
    return { committed: true, versions };
  }

  #checkAndApply(write: AtomicWrite): CommitResult {
    const { version, puts, deletes, frees } = write;
    // Each look descends to a page of its own, a fifth of the CPU of building an index.
    const checks = this.#stillHold(write) ? [] : write.checks;
    const checkedVersions: (number | undefined)[] = [];
    this.#extent.keys += checks.length + deletes.length;
    for (let index = 0; index < checks.length; index++) {
      const check = checks[index]!;
      const stored = this.#storedVersion(check.key);
      if (!holds(check, stored)) return { committed: false, failedCheck: index };
      checkedVersions.push(stored);
    }
    const versions: number[] = [];
    // Computed before the first put raises `#newest` to this version, which says nothing about the other keys.
    const isNewest = version > this.#newest;
    for (let index = 0; index < puts.length; index++) {
      const { key, value } = puts[index]!;
      // Most puts have a check at the same index: one read then serves both.
      const isChecked = checks[index]?.key === key;
      const stored = isChecked ? checkedVersions[index] : isNewest ? 0 : this.#storedVersion(key);
      const own = this.#above(stored ?? 0, version);
      this.#put(key, value, own);
      versions.push(own);
    }
    for (const key of deletes) {
      if (this.#store.remove(key).result) this.#extent.hasWritten = true;
    }
    if (puts.length > 0 && deletes.length === 0 && !frees) this.#extent.onlyAdds = true;
    return { committed: true, versions };
  }

  #stillHold({ heldAt }: AtomicWrite): boolean {
    return heldAt !== undefined && heldAt >= this.#changedAt;
  }

  #put(key: Key, value: Uint8Array, version: number): void {
    putSealed(this.#store, key, value, version);
    this.#count(value, version);
  }

  #count(value: Uint8Array, version: number): void {
    const extent = this.#extent;
    extent.hasWritten = true;
    extent.keys++;
    extent.bytes += value.length;
    extent.newest = Math.max(extent.newest, version);
    this.#newest = Math.max(this.#newest, version);
  }

  /** A version above the stored one: the writer's own, if that is larger. */
  #above(stored: number, version: number): number {
    return version > stored ? version : this.#versions.nextAbove(stored);
  }

  #storedVersion(key: Key): number | undefined {
    return this.#store.getBinaryFast(key) === undefined ? undefined : Math.abs(lastVersion());
  }
}

/** Whether the write only puts keys that must be absent. */
function isInsert({ checks, puts, deletes }: AtomicWrite): boolean {
  if (puts.length === 0 || checks.length !== puts.length || deletes.length > 0) return false;
  for (let index = 0; index < puts.length; index++) {
    const { expected, key } = checks[index]!;
    if (expected !== "absent" || key !== puts[index]!.key) return false;
  }
  return true;
}
