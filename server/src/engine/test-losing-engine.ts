import assert from "node:assert/strict";
import { type AtomicWrite, CALL_MS_MAX, type CommitResult } from "./engine.ts";
import { MemoryEngine } from "./memory-engine.ts";

/** A memory engine that, on request, loses every commit to a rival. */
export class LosingEngine extends MemoryEngine {
  /** Moves the clock. While it is set, every commit is lost, and two of them take longer than a call may. */
  pass: ((milliseconds: number) => void) | undefined;
  #lost = 0;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    if (!this.pass) return super.commit(write);
    assert(++this.#lost <= 9, "There were more attempts than the time of a call allows.");
    this.pass(CALL_MS_MAX / 2 + 1);
    return { committed: false, failedCheck: 0 };
  }

  /** The number of commits lost since the last call. */
  takeLost(): number {
    const lost = this.#lost;
    this.#lost = 0;
    return lost;
  }
}
