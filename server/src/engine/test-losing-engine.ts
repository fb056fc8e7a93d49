import assert from "node:assert/strict";
import { type AtomicWrite, CALL_MS_MAX, type CommitResult } from "./engine.ts";
import { MemoryEngine } from "./memory-engine.ts";

/** A memory in which rivals come first at every commit, once it is told so. */
export class LosingEngine extends MemoryEngine {
  /** Moves the clock; set, no commit is applied any more, and two of them take longer than a call may. */
  pass: ((milliseconds: number) => void) | undefined;
  #lost = 0;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    if (!this.pass) return super.commit(write);
    assert(++this.#lost <= 9, "It goes on and on.");
    this.pass(CALL_MS_MAX / 2 + 1);
    return { committed: false, failedCheck: 0 };
  }

  /** Commits that were lost since this was asked last. */
  takeLost(): number {
    const lost = this.#lost;
    this.#lost = 0;
    return lost;
  }
}
