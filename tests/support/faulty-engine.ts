import { EngineError, type EngineErrorCode } from "@rowhouse/server/engine/engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";

/** An engine in memory that fails on demand. */
export class FaultyEngine extends MemoryEngine {
  /** The error of every read, or every commit, from now on. */
  readFault: Fault | undefined;
  commitFault: Fault | undefined;

  override newestCommit(): number | undefined {
    failWith(this.readFault);
    return super.newestCommit();
  }

  override get(...read: Parameters<MemoryEngine["get"]>): ReturnType<MemoryEngine["get"]> {
    failWith(this.readFault);
    return super.get(...read);
  }

  override scan(...read: Parameters<MemoryEngine["scan"]>): ReturnType<MemoryEngine["scan"]> {
    failWith(this.readFault);
    return super.scan(...read);
  }

  override async commit(
    ...[write]: Parameters<MemoryEngine["commit"]>
  ): ReturnType<MemoryEngine["commit"]> {
    failWith(this.commitFault);
    return super.commit(write);
  }

  override async update(
    ...change: Parameters<MemoryEngine["update"]>
  ): ReturnType<MemoryEngine["update"]> {
    failWith(this.commitFault);
    return super.update(...change);
  }
}

/** A failure of the storage, or a bug in the engine. */
type Fault = EngineErrorCode | "Bug";

function failWith(code: Fault | undefined): void {
  if (code === "Bug") throw new TypeError("Told to fail.");
  if (code !== undefined) throw new EngineError(code, "Told to fail.");
}
