import { ServiceError } from "@rowhouse/protocol/errors";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { type Attempt, Contention, LOST } from "../engine/contention.ts";
import {
  type AtomicWrite,
  type Check,
  type CommitResult,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type Put,
} from "../engine/engine.ts";
import { type BlobName, blobKey, blobPartition } from "./blob-keys.ts";
import {
  type BlobRecord,
  type CommittedBlob,
  contentIdOf,
  decodeRecord,
  encodeRecord,
} from "./blob-record.ts";
import type { ContainerValue } from "./container-value.ts";
import type { NewContent } from "./content-life/new-content.ts";
import { NOTHING_RELEASED, type Released } from "./content-life/released.ts";

/** What is stored under a name, read in one snapshot. */
export interface BlobState {
  readonly container: Named<ContainerValue>;
  readonly key: Key;
  readonly record: BlobRecord;
  /** Undefined when the name is free; the record is then empty. */
  readonly version: number | undefined;
}

/** A change to a name, made in one commit. */
export interface BlobChange<Result> {
  /** Undefined frees the name. "unchanged" checks the record without writing it. */
  readonly record: BlobRecord | "unchanged" | undefined;
  readonly checks?: readonly Check[];
  readonly puts?: readonly Put[];
  readonly deletes?: readonly Key[];
  readonly released?: Released;
  readonly result: Result;
}

/** Decides on a change to `state`, at an instant in microseconds; may throw a ServiceError. */
export type Decide<Result> = (state: BlobState, now: number) => Awaitable<BlobChange<Result>>;

export interface BlobStoreOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<ContainerValue>;
  /** Called when something may need to be freed. */
  readonly onLeftOver: () => void;
}

/**
 * Reads and changes what is stored under blob names. Every change is decided on a snapshot and committed only
 * if the snapshot is still current; otherwise it is decided again. So conditions and leases hold at the
 * commit, and of several writers with the same ETag one wins.
 */
export class BlobStore {
  readonly #options: BlobStoreOptions;
  readonly #contention: Contention;
  readonly #partitions = new WeakMap<Named<ContainerValue>, Uint8Array>();

  constructor(options: BlobStoreOptions) {
    this.#options = options;
    this.#contention = new Contention(options.clock);
  }

  /** @throws ServiceError ContainerNotFound */
  read(name: BlobName): Awaitable<BlobState> {
    const named = this.#options.catalog.remembered(name.account, name.container);
    return named ? this.#readIn(named, name) : this.#readAfresh(name);
  }

  #readAfresh(name: BlobName): Awaitable<BlobState> {
    return whenReady(this.findContainer(name.account, name.container), (named) =>
      this.#readIn(named, name),
    );
  }

  /** Opens the container again if it has changed: its blobs may be deleted, and already freed by the reaper. */
  #readIn(named: Named<ContainerValue>, name: BlobName): Awaitable<BlobState> {
    const { engine, catalog } = this.#options;
    const key = this.#key(name.account, named, name.blob);
    return whenReady(engine.get([named.key, key]), ([entry, found]) =>
      catalog.isCurrent(named, entry) ? stateOf(named, key, found) : this.#readAfresh(name),
    );
  }

  /** @throws ServiceError ContainerNotFound */
  findContainer(account: string, name: string): Awaitable<Named<ContainerValue>> {
    return whenReady(this.#options.catalog.find(account, name), (named) => {
      if (!named) throw new ServiceError("ContainerNotFound");
      return named;
    });
  }

  /**
   * For callers that did not find something a record referred to. If the record no longer refers to it, the
   * caller may read again.
   * @throws EngineError `Corrupt` if it still does: reading again would loop forever.
   */
  async assertReleased(name: BlobName, id: string, kind: "content" | "draft"): Promise<void> {
    if (await this.#isReleased(name, id, kind)) return;
    const { account, container, blob: path } = name;
    const text = `The ${kind} ${id} of ${account}/${container}/${path} is missing.`;
    throw new EngineError("Corrupt", text);
  }

  /**
   * Reads what a record refers to, which another process may be freeing.
   * @returns undefined when that failed and the record no longer refers to it: the caller must read again
   */
  async readUnlessReleased<T>(
    name: BlobName,
    blob: CommittedBlob | undefined,
    read: () => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (await this.#isReleased(name, contentIdOf(blob), "content")) return undefined;
      throw error;
    }
  }

  async #isReleased(
    name: BlobName,
    id: string | undefined,
    kind: "content" | "draft",
  ): Promise<boolean> {
    const { blob, draft } = (await this.read(name)).record;
    return id !== (kind === "draft" ? draft?.id : contentIdOf(blob));
  }

  /**
   * Changes what is stored under a name.
   * @param contents stored for this change; given up if it fails
   */
  async change<Result>(
    name: BlobName,
    decide: Decide<Result>,
    contents: readonly NewContent[] = [],
  ): Promise<Result> {
    try {
      return await this.settle(name, async () => {
        const state = await this.read(name);
        const change = await decide(state, this.now());
        return (await this.commit(state, change, contents)) ? change.result : LOST;
      });
    } finally {
      for (const { making } of contents) making?.giveUp();
    }
  }

  /** Repeats an attempt that other changes to the blob may defeat, until one succeeds. */
  settle<Result>(
    { account, container, blob }: BlobName,
    attempt: Attempt<Result>,
  ): Promise<Result> {
    return this.#contention.settle(`${account}/${container}/${blob}`, attempt);
  }

  /** @returns false when the state it was decided on is no longer current */
  async commit(
    state: BlobState,
    change: BlobChange<unknown>,
    contents: readonly NewContent[],
  ): Promise<boolean> {
    const { engine, onLeftOver } = this.#options;
    const { key, version } = state;
    const { record, released = NOTHING_RELEASED } = change;
    const checks: Check[] = [{ key, expected: version ?? "absent" }, ...(change.checks ?? [])];
    const ownChecks = checks.length;
    const isWritten = record !== undefined && record !== "unchanged";
    // At the position of its check, so that the engine looks it up once.
    const own: Put[] = isWritten ? [{ key, value: encodeRecord(record) }] : [];
    const puts = [...own, ...(change.puts ?? []), ...released.puts];
    const deletes = [...(change.deletes ?? []), ...released.deletes];
    if (record === undefined) deletes.push(key);
    for (const content of contents) {
      checks.push(...content.checks);
      puts.push(...content.puts);
      deletes.push(...content.deletes);
    }
    const write: AtomicWrite = { version: engine.nextVersion(), checks, puts, deletes };
    let result: CommitResult;
    try {
      result = await engine.commit(write);
    } catch (error) {
      // The blob may now own the content: giving that up could leave the blob without it.
      if (error instanceof EngineError && error.code === "Unknown") {
        for (const { making } of contents) making?.leaveInDoubt();
      }
      throw error;
    }
    if (result.committed) {
      for (const { making } of contents) making?.settle();
      if (released.puts.length > 0) onLeftOver();
      return true;
    }
    if (result.failedCheck >= ownChecks) {
      throw new EngineError(
        "Unavailable",
        "The stored content was mistaken for garbage and freed.",
      );
    }
    return false;
  }

  /** An instant in microseconds that no other change has; see `Engine.nextVersion`. */
  now(): number {
    return this.#options.engine.nextVersion();
  }

  /** The partition of a container's blobs. */
  partition(account: string, container: Named<ContainerValue>): Uint8Array {
    let partition = this.#partitions.get(container);
    if (partition === undefined) {
      partition = blobPartition(this.#options.catalog.accountId(account), container.id);
      this.#partitions.set(container, partition);
    }
    return partition;
  }

  #key(account: string, container: Named<ContainerValue>, blob: string): Key {
    return blobKey(this.partition(account, container), blob, this.#options.engine.keyBytesMax);
  }
}

function stateOf(container: Named<ContainerValue>, key: Key, found: Entry | undefined): BlobState {
  return {
    container,
    key,
    record: found ? decodeRecord(found) : {},
    version: found?.version,
  };
}
