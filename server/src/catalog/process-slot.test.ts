import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CommitResult, EngineError } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { drawSlot } from "./process-slot.ts";

describe("The number of a process among those that serve the same data", () => {
  it("is the next one, even when several processes start at once", async () => {
    const engine = new MemoryEngine();
    const places = await Promise.all(Array.from({ length: 8 }, () => drawSlot(engine)));
    assert.deepEqual(
      places.toSorted((a, b) => a - b),
      [0, 1, 2, 3, 4, 5, 6, 7],
    );
    assert.equal(await drawSlot(engine), 8);
  });

  it("is random when nothing can be written", async () => {
    class FullEngine extends MemoryEngine {
      override async commit(): Promise<CommitResult> {
        throw new EngineError("Unavailable", "no space left");
      }
    }
    const engine = new FullEngine();
    assert.notEqual(await drawSlot(engine), await drawSlot(engine));
  });
});
