import type { Check } from "../engine/engine.ts";

/**
 * The store of contents too large for an engine's values: bytes under an id, written once as a stream, never
 * changed, read in ranges, deleted. The store does not know what refers to a content; `blob/content-life/notes.ts`
 * makes sure that no content stays to which nothing refers.
 *
 * `conformance.ts` is the executable half of this file.
 */
export interface ContentStore {
  /**
   * Stores bytes under an id that was never used before. When the promise resolves, they are durable, and so
   * is their name. Holds no more than a few parts in memory, and is done with each part when it requests the
   * one after the next. After a rejection some of the bytes may be stored: `delete` removes them.
   *
   * @param fence a check that holds as long as the content is wanted. A database may execute a commit after
   * the process that sent it died and after a `delete`, so a store inside an engine commits under this check.
   * Other stores may ignore it: none of their writes outlives the process.
   * @throws EngineError `Unavailable` if there is no room, or the fence no longer holds; whatever `bytes` throws.
   */
  write(id: ContentId, bytes: AsyncIterable<Uint8Array>, fence?: Check): Promise<void>;

  /**
   * The bytes from `start` to `end`, which is not included, in parts. Each part is lent until the next one is
   * requested; a reader that stops early releases what is held by ending the iteration.
   * @throws EngineError `Corrupt` if there are no such bytes; `Unavailable` if they are being deleted.
   */
  read(id: ContentId, start: number, end: number): AsyncIterable<Uint8Array>;

  /**
   * Stores the same bytes under another id; each of the two can then be deleted without the other. `fence` as above.
   * @throws EngineError as `read` and `write` do; it never resolves with only part of the bytes.
   */
  copy(from: ContentId, to: ContentId, fence?: Check): Promise<void>;

  /** Removes everything under an id: a content, the remains of an interrupted write, or nothing. */
  delete(id: ContentId): Promise<void>;

  /** Every id under which something is stored, in any order. For tests. */
  list(): AsyncIterable<ContentId>;

  /** Releases everything. Calling it twice is allowed. */
  close(): Promise<void>;
}

/** 16 lower-case letters and digits; see `content-ids.ts`. */
export type ContentId = string;
