import type { Check } from "../engine/engine.ts";

/**
 * Where contents too large for an engine's values live: bytes under an id, written once as a stream,
 * never changed, read in ranges, deleted. What refers to them is the caller's affair; `blob/notes.ts`
 * sees to it that nothing stays that nothing refers to.
 *
 * `conformance.ts` is the executable half of this file.
 */
export interface ContentStore {
  /**
   * Keeps bytes under an id nobody used before. Durable, with its name, when the promise resolves.
   * Takes no more memory than a few parts, and is done with each when it asks for the one after the
   * next. When it rejects, some of the bytes may be there: `delete` removes them.
   *
   * @param fence what holds as long as the content is wanted. A database may carry out a commit after
   * the process that sent it is dead and `delete` has been by, so a store in an engine commits under
   * this check. Others need not look at it: nothing of theirs outlives their process.
   * @throws EngineError `Unavailable` when there is no room, or the fence fell; whatever `bytes` throws.
   */
  write(id: ContentId, bytes: AsyncIterable<Uint8Array>, fence?: Check): Promise<void>;

  /**
   * The bytes from `start` to `end`, which is not included, in parts. Each is lent until the next is
   * asked for; those who break off give back what is held by ending the iteration.
   * @throws EngineError `Corrupt` when there are no such bytes; `Unavailable` when they are being deleted.
   */
  read(id: ContentId, start: number, end: number): AsyncIterable<Uint8Array>;

  /**
   * The same bytes under another id; each can then be deleted without the other. `fence` as above.
   * @throws EngineError as `read` and `write` do; it never resolves with a part of them.
   */
  copy(from: ContentId, to: ContentId, fence?: Check): Promise<void>;

  /** Takes away what there is under an id: all of it, what an interrupted write left, or nothing. */
  delete(id: ContentId): Promise<void>;

  /** Every id there is anything under, in any order. For tests. */
  list(): AsyncIterable<ContentId>;

  /** Releases everything. Calling it twice is allowed. */
  close(): Promise<void>;
}

/** 16 lower-case letters and digits; see `content-ids.ts`. */
export type ContentId = string;
