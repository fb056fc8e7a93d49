import type { ContentId } from "../content/content-store.ts";
import { MemoryContentStore } from "../content/memory-content-store.ts";
import { type AtomicWrite, type CommitResult, EngineError } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";

/** Acts like the disk of a process that is killed after so many commits. */
export class MortalEngine extends MemoryEngine {
  commitsLeft = Number.POSITIVE_INFINITY;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    if (this.commitsLeft-- <= 0) throw new EngineError("Unavailable", "The process is killed.");
    return super.commit(write);
  }
}

/** Calls back before something is freed or copied. */
export class WatchedContentStore extends MemoryContentStore {
  beforeDelete: ((id: ContentId) => Promise<void>) | undefined;
  beforeCopy: (() => Promise<void>) | undefined;

  override async copy(from: ContentId, to: ContentId): Promise<void> {
    await this.beforeCopy?.();
    await super.copy(from, to);
  }

  override async delete(id: ContentId): Promise<void> {
    await this.beforeDelete?.(id);
    await super.delete(id);
  }
}
