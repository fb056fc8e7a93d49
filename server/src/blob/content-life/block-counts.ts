import type { Engine } from "../../engine/engine.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { draftBlocksRange } from "../blob-keys.ts";

const DRAFTS_REMEMBERED = 10_000;

/**
 * The number of uncommitted blocks per draft, counted once and then kept up to date by this process. With
 * several processes, a draft may exceed its limit by the blocks that the others have added since.
 */
export class BlockCounts {
  readonly #engine: Engine;
  readonly #counts = new Map<string, number>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async of(draft: string): Promise<number> {
    const known = this.#counts.get(draft);
    if (known !== undefined) return known;
    let count = 0;
    await scanToEnd(this.#engine, draftBlocksRange(draft), () => {
      count++;
      return true;
    });
    if (this.#counts.size >= DRAFTS_REMEMBERED) this.#counts.clear();
    this.#counts.set(draft, count);
    return count;
  }

  /** Call it when a block was added that did not exist before. */
  added(draft: string): void {
    const known = this.#counts.get(draft);
    if (known !== undefined) this.#counts.set(draft, known + 1);
  }
}
