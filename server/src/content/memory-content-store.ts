import { EngineError } from "../engine/engine.ts";
import type { ContentId, ContentStore } from "./content-store.ts";

/** Contents in memory, next to the memory engine: for tests and for `--inMemoryPersistence`. */
export class MemoryContentStore implements ContentStore {
  readonly #contents = new Map<ContentId, Uint8Array>();

  async write(id: ContentId, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const parts: Uint8Array[] = [];
    for await (const part of bytes) parts.push(Uint8Array.from(part));
    this.#contents.set(id, Buffer.concat(parts));
  }

  async *read(id: ContentId, start: number, end: number): AsyncGenerator<Uint8Array> {
    const content = this.#contents.get(id);
    if (content === undefined || content.length < end) {
      throw new EngineError("Corrupt", `Content ${id} is missing or shorter than ${end} bytes.`);
    }
    if (start < end) yield content.subarray(start, end);
  }

  async copy(from: ContentId, to: ContentId): Promise<void> {
    const content = this.#contents.get(from);
    if (content === undefined) throw new EngineError("Corrupt", `Content ${from} is missing.`);
    this.#contents.set(to, content);
  }

  async delete(id: ContentId): Promise<void> {
    this.#contents.delete(id);
  }

  async *list(): AsyncGenerator<ContentId> {
    yield* this.#contents.keys();
  }

  async close(): Promise<void> {
    this.#contents.clear();
  }
}
