import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { BackgroundLoop, type BackgroundWork } from "../catalog/background-loop.ts";
import type { Clock } from "../clock.ts";
import { firstIdAt } from "../content/content-ids.ts";
import type { Engine, Key } from "../engine/engine.ts";
import { afterPartition, startOfPartition } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { type BlobName, draftHeadKey, draftPartition, isDraftHead } from "./blob-keys.ts";
import type { BlobState, BlobStore } from "./blob-store.ts";
import { decodeDraftHead } from "./content-life/drafts.ts";
import type { Notes } from "./content-life/notes.ts";

export interface DraftExpiryOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly blobs: BlobStore;
  readonly notes: Notes;
  readonly onError: (error: unknown) => void;
}

const PERIOD_MS = 3_600_000;

interface FoundDraft {
  readonly id: string;
  readonly name: BlobName;
  /** Version of the draft's head. */
  readonly version: number;
}

/**
 * Releases drafts that have received no block for a week. Draft ids sort by the time the draft was begun, so
 * only drafts begun at least a week ago are read; the version of a draft's head is the time of its last
 * block.
 */
export class DraftExpiry implements BackgroundWork {
  readonly #options: DraftExpiryOptions;
  readonly #loop: BackgroundLoop;

  constructor(options: DraftExpiryOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.expire(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /** Releases all drafts that are due. */
  async expire(): Promise<void> {
    const before = this.#options.clock.now() - LIMITS.uncommittedBlocksMs;
    let from = startOfPartition(draftPartition(""));
    while (!this.#loop.closed) {
      const draft = await this.#next(from, firstIdAt(before));
      if (draft === undefined) return;
      if (draft.version / 1000 < before) {
        // A draft that cannot be released, such as one of an account no longer served, does not stop the
        // others.
        await this.#drop(draft).catch(this.#options.onError);
      }
      from = afterPartition(draftPartition(draft.id));
    }
  }

  /** The first draft from a position on, among those begun before an id. */
  async #next(from: Key, before: string): Promise<FoundDraft | undefined> {
    const { engine } = this.#options;
    let found: FoundDraft | undefined;
    const range = {
      start: from,
      end: startOfPartition(draftPartition(before)),
    };
    await scanToEnd(engine, range, (entry) => {
      // Blocks without a head belong to a draft that is being freed.
      if (!isDraftHead(entry.key)) return true;
      found = {
        id: Buffer.from(entry.key.partition).toString("latin1", 1),
        name: decodeDraftHead(entry),
        version: entry.version,
      };
      return false;
    });
    return found;
  }

  /** A block that arrives at the same time is not lost: it changes the head's version, and the check fails. */
  async #drop({ id, name, version }: FoundDraft): Promise<void> {
    const { blobs, engine, notes } = this.#options;
    const headKey = draftHeadKey(id);
    const checks = [{ key: headKey, expected: version }];
    const released = { puts: [notes.garbage({ kind: "draft", id })], deletes: [headKey] };
    const state = await this.#stateOf(name);
    if (state?.record.draft?.id === id) {
      const { blob } = state.record;
      const record = blob === undefined ? undefined : { blob };
      await blobs.commit(state, { record, checks, released, result: undefined }, []);
      return;
    }
    // The container is gone, and the blob with it.
    await engine.commit({ version: engine.nextVersion(), checks, ...released });
  }

  async #stateOf(name: BlobName): Promise<BlobState | undefined> {
    try {
      return await this.#options.blobs.read(name);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "ContainerNotFound") return undefined;
      throw error;
    }
  }
}
