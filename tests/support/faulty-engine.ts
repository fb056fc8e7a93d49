import type { Awaitable } from "@rowhouse/server/awaitable";
import {
  type AtomicWrite,
  type CommitResult,
  type Engine,
  EngineError,
  type EngineErrorCode,
  type Entry,
  type Key,
  type KeyRange,
  type ScanEnd,
  type ScanHints,
  type Visit,
} from "@rowhouse/server/engine/engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";

/** An engine in memory that fails on demand. */
export class FaultyEngine implements Engine {
  readonly name = "faulty";
  readonly #inner = new MemoryEngine();
  readonly keyBytesMax = this.#inner.keyBytesMax;
  readonly hasFreePremises = true;
  /** The error of every read, or every commit, from now on. */
  readFault: Fault | undefined;
  commitFault: Fault | undefined;

  nextVersion(): number {
    return this.#inner.nextVersion();
  }

  newestCommit(): number | undefined {
    failWith(this.readFault);
    return this.#inner.newestCommit();
  }

  get(keys: readonly Key[]): Awaitable<(Entry | undefined)[]> {
    failWith(this.readFault);
    return this.#inner.get(keys);
  }

  scan(range: KeyRange, visit: Visit, _hints?: ScanHints): Awaitable<ScanEnd> {
    failWith(this.readFault);
    return this.#inner.scan(range, visit);
  }

  async commit(write: AtomicWrite): Promise<CommitResult> {
    failWith(this.commitFault);
    return this.#inner.commit(write);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

/** A failure of the storage, or a bug in the engine. */
type Fault = EngineErrorCode | "Bug";

function failWith(code: Fault | undefined): void {
  if (code === "Bug") throw new TypeError("Told to fail.");
  if (code !== undefined) throw new EngineError(code, "Told to fail.");
}
